"""Semi-supervised node classification on a district heating network.

Nodes are substations, edges are pipes with a length. Some nodes carry a
measured fault class, the others take part in message passing only.
"""
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Network(NamedTuple):
    features: jax.Array     # [N, F]
    senders: jax.Array      # [E]
    receivers: jax.Array    # [E]
    length: jax.Array       # [E]
    labels: jax.Array       # [N]
    measured: jax.Array     # [N] 1.0 where a label exists


class Conv(NamedTuple):
    w_self: jax.Array
    w_nbr: jax.Array
    w_edge: jax.Array
    bias: jax.Array


class Model(NamedTuple):
    convs: tuple
    head: jax.Array
    head_bias: jax.Array


class Momentum(NamedTuple):
    velocity: Model
    step: jax.Array


SIZES = (7, 16, 16)
CLASSES = 4


def init_model(seed):
    rng = np.random.default_rng(seed)

    def mat(a, b):
        return jnp.asarray(rng.normal(0, (2.0 / (a + b)) ** 0.5, (a, b)), jnp.float32)

    convs = tuple(
        Conv(mat(a, b), mat(a, b), mat(1, b), jnp.zeros(b)) for a, b in zip(SIZES, SIZES[1:]))
    return Model(convs, mat(SIZES[-1], CLASSES), jnp.zeros(CLASSES))


def conv(p: Conv, h, net: Network):
    n = h.shape[0]
    msg = h[net.senders] @ p.w_nbr + jnp.log1p(net.length)[:, None] @ p.w_edge
    total = jax.ops.segment_sum(jax.nn.relu(msg), net.receivers, num_segments=n)
    degree = jax.ops.segment_sum(jnp.ones_like(net.length), net.receivers, num_segments=n)
    mean = total / jnp.maximum(degree, 1.0)[:, None]
    return jnp.tanh(h @ p.w_self + mean + p.bias)


def predict(model: Model, net: Network):
    h = net.features
    for layer in model.convs:
        h = conv(layer, h, net)
    return h @ model.head + model.head_bias


def objective(model, net, l2):
    logits = predict(model, net)
    logp = logits - jax.scipy.special.logsumexp(logits, axis=-1, keepdims=True)
    onehot = jax.nn.one_hot(net.labels, CLASSES)
    ce = -jnp.sum(onehot * logp, axis=-1)
    data = jnp.sum(ce * net.measured) / jnp.sum(net.measured)
    decay = sum(jnp.sum(jnp.square(w)) for c in model.convs for w in (c.w_self, c.w_nbr))
    correct = (jnp.argmax(logits, -1) == net.labels) * net.measured
    return data + l2 * decay, jnp.sum(correct) / jnp.sum(net.measured)


@jax.jit
def step(model, opt, net, peak_lr):
    (loss, acc), grads = jax.value_and_grad(objective, has_aux=True)(model, net, 1e-3)
    lr = peak_lr / (1.0 + 0.05 * opt.step)
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, opt.velocity, grads)
    model = jax.tree.map(lambda p, v, g: p - lr * (g + 0.9 * v), model, velocity, grads)
    return model, Momentum(velocity, opt.step + 1), loss, acc


def synthetic_network(rng, nodes=60, extra=30):
    tree = [(int(rng.integers(i)), i) for i in range(1, nodes)]
    loops = [tuple(int(v) for v in rng.choice(nodes, 2, replace=False)) for _ in range(extra)]
    edges = np.array(tree + loops)
    both = np.concatenate([edges, edges[:, ::-1]])
    length = rng.gamma(2.0, 40.0, len(edges))
    labels = rng.integers(0, CLASSES, nodes)
    feats = rng.normal(size=(nodes, SIZES[0]))
    feats[:, :CLASSES] += 1.5 * np.eye(CLASSES)[labels]
    return Network(jnp.asarray(feats, jnp.float32), jnp.asarray(both[:, 0], jnp.int32),
                   jnp.asarray(both[:, 1], jnp.int32),
                   jnp.asarray(np.concatenate([length, length]), jnp.float32),
                   jnp.asarray(labels, jnp.int32),
                   jnp.asarray(rng.random(nodes) < 0.35, jnp.float32))


def setup(seed=21):
    net = synthetic_network(np.random.default_rng(seed))
    model = init_model(seed)
    opt = Momentum(jax.tree.map(jnp.zeros_like, model), jnp.zeros((), jnp.float32))
    return model, opt, net


def main():
    model, opt, net = setup()
    for i in range(40):
        model, opt, loss, acc = step(model, opt, net, 0.05)
        if i % 10 == 0:
            print(f"iter {i:3d} loss {float(loss):.4f} acc {float(acc):.2f}")


if __name__ == "__main__":
    main()
