"""Node classification with a small message-passing network (JAX + optax)."""
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

NODES, EDGES, FEATURES, HIDDEN, CLASSES = 40, 120, 9, 16, 5


class Affine(NamedTuple):
    weight: jax.Array
    bias: jax.Array

    def __call__(self, x):
        return jnp.einsum("ni,io->no", x, self.weight) + self.bias


class MPNN(NamedTuple):
    readout: Affine
    update: Affine
    relay: jax.Array
    embed: Affine

    @classmethod
    def create(cls, key):
        ks = jax.random.split(key, 6)

        def uniform(k, fan_in, fan_out):
            bound = np.sqrt(6.0 / (fan_in + fan_out))
            return jax.random.uniform(k, (fan_in, fan_out), minval=-bound, maxval=bound)

        return cls(
            embed=Affine(uniform(ks[0], FEATURES, HIDDEN), jnp.zeros(HIDDEN)),
            relay=uniform(ks[1], HIDDEN, HIDDEN),
            update=Affine(uniform(ks[2], HIDDEN, HIDDEN), jnp.zeros(HIDDEN)),
            readout=Affine(uniform(ks[3], HIDDEN, CLASSES), jnp.zeros(CLASSES)),
        )


class Graph(NamedTuple):
    src: jax.Array
    dst: jax.Array
    norm: jax.Array
    target: jax.Array
    weight: jax.Array
    feats: jax.Array


def gather_neighbours(values, g):
    total = jnp.zeros((NODES, HIDDEN)).at[g.dst].add(values[g.src])
    return g.norm.reshape(NODES, 1) * total


def predict(net, g):
    state = jnp.tanh(net.embed(g.feats))
    for _hop in range(2):
        incoming = gather_neighbours(state @ net.relay, g)
        state = jnp.tanh(incoming + net.update(state))
    return net.readout(state)


def objective(net, g):
    logits = predict(net, g)
    per_node = optax.softmax_cross_entropy(logits, jax.nn.one_hot(g.target, CLASSES))
    return (g.weight * per_node).sum() / g.weight.sum()


optimizer = optax.sgd(learning_rate=0.05, momentum=0.9)


@jax.jit
def update(g, opt_state, net):
    value, grad = jax.value_and_grad(objective)(net, g)
    delta, opt_state = optimizer.update(grad, opt_state, net)
    return value, opt_state, optax.apply_updates(net, delta)


def synthetic(seed):
    rng = np.random.default_rng(seed)
    target = rng.integers(CLASSES, size=NODES)
    src = rng.integers(NODES, size=EDGES)
    dst = rng.integers(NODES, size=EDGES)
    indegree = np.bincount(dst, minlength=NODES)
    means = rng.normal(size=(CLASSES, FEATURES))
    feats = means[target] + rng.normal(size=(NODES, FEATURES))
    weight = rng.random(NODES) < 0.6
    f32, i32 = np.float32, np.int32
    return Graph(src.astype(i32), dst.astype(i32), (1.0 / np.maximum(indegree, 1)).astype(f32),
                 target.astype(i32), weight.astype(f32), feats.astype(f32))


def main(steps=5):
    g = synthetic(0)
    net = MPNN.create(jax.random.PRNGKey(0))
    opt_state = optimizer.init(net)
    for i in range(steps):
        value, opt_state, net = update(g, opt_state, net)
        print(i, "%.6f" % value)
    print("norm %.6f" % sum(float(jnp.abs(p).sum()) for p in jax.tree.leaves(net)))


if __name__ == "__main__":
    main()
