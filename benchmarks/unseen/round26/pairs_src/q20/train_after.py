"""graph classification with a two-layer GCN on padded graphs"""
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

MAX_NODES, FEATURES, WIDTH, LABELS, BATCH_SIZE = 9, 4, 16, 3, 8


class Affine(NamedTuple):
    bias: jax.Array
    kernel: jax.Array


class GraphNet(NamedTuple):
    head: Affine
    attention: jax.Array
    first: Affine
    second: Affine


class Graph(NamedTuple):
    nodes: jax.Array
    valid: jax.Array
    edges: jax.Array
    label: jax.Array


class TrainState(NamedTuple):
    opt: optax.OptState
    net: GraphNet


def new_network(seed):
    def weight(key, fan_in, fan_out):
        return jax.random.normal(key, (fan_in, fan_out)) * (2.0 / (fan_in + fan_out)) ** 0.5

    k1, k2, k3, k4 = jax.random.split(jax.random.PRNGKey(seed), 4)
    return GraphNet(
        first=Affine(kernel=weight(k1, FEATURES, WIDTH), bias=jnp.zeros(WIDTH)),
        second=Affine(kernel=weight(k2, WIDTH, WIDTH), bias=jnp.zeros(WIDTH)),
        attention=weight(k3, WIDTH, 1),
        head=Affine(kernel=weight(k4, WIDTH, LABELS), bias=jnp.zeros(LABELS)),
    )


def propagation_matrix(edges, valid):
    """symmetric normalisation with self loops on the real nodes"""
    a = jnp.diag(valid) + edges
    degree = a.sum(1)
    scale = jnp.where(degree > 0, 1.0 / jnp.sqrt(jnp.maximum(degree, 1.0)), 0.0)
    return a * jnp.outer(scale, scale)


def logits_of(net: GraphNet, g: Graph):
    prop = propagation_matrix(g.edges, g.valid)

    h1 = jax.nn.relu(prop @ (g.nodes @ net.first.kernel) + net.first.bias)
    h2 = jax.nn.relu(net.second.bias + prop @ (h1 @ net.second.kernel)) + h1
    raw = jnp.dot(h2, net.attention).reshape(-1)
    raw = jnp.where(g.valid == 0, -1e9, raw)
    e = jnp.exp(raw - jax.lax.stop_gradient(raw.max()))
    pooled = (e / e.sum()) @ h2
    return net.head.bias + pooled @ net.head.kernel


def example_loss(net, g):
    z = logits_of(net, g)
    nll = jax.nn.logsumexp(z) - jnp.sum(z * jax.nn.one_hot(g.label, LABELS))
    return nll, z.argmax() == g.label


def objective(net, graphs):
    nll, hit = jax.vmap(example_loss, in_axes=(None, 0))(net, graphs)
    return nll.sum() / nll.shape[0], hit.mean()


optimizer = optax.chain(
    optax.scale_by_adam(),
    optax.add_decayed_weights(1e-2),
    optax.scale_by_learning_rate(3e-3),
)


@jax.jit
def update(graphs: Graph, state: TrainState):
    (loss, accuracy), grads = jax.value_and_grad(objective, has_aux=True)(state.net, graphs)
    deltas, opt = optimizer.update(grads, state.opt, state.net)
    net = optax.apply_updates(state.net, deltas)
    return {"accuracy": accuracy, "loss": loss}, TrainState(opt=opt, net=net)


def sample_graphs(rs):
    shape = (BATCH_SIZE, MAX_NODES)
    edges, valid = np.zeros(shape + (MAX_NODES,), np.float32), np.zeros(shape, np.float32)
    label = rs.randint(0, LABELS, BATCH_SIZE).astype(np.int32)
    for e, v, c in zip(edges, valid, label):
        n = rs.randint(4, MAX_NODES + 1)
        v[:n] = 1
        upper = np.triu(rs.rand(n, n) < (0.2, 0.5, 0.8)[c], 1)
        e[:n, :n] = upper + upper.T
    nodes = rs.randn(*shape, FEATURES).astype(np.float32) * valid[..., None]
    nodes[..., 0] = edges.sum(-1) / MAX_NODES
    return Graph(nodes=nodes, valid=valid, edges=edges, label=label)


def main():
    net = new_network(seed=0)
    state = TrainState(opt=optimizer.init(net), net=net)
    rs = np.random.RandomState(0)
    for i in range(5):
        logs, state = update(sample_graphs(rs), state)
        print(f"{i} {float(logs['loss']):.6f} {float(logs['accuracy']):.3f}")


if __name__ == "__main__":
    main()
