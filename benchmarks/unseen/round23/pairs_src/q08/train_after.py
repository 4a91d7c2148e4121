"""Node classifier as a small library: NamedTuple batches, step built by a factory, optimizer state explicit."""
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

NUM_NODES, NUM_EDGES, NUM_FEATS, WIDTH, CLASSES = 24, 80, 6, 16, 4


class Graph(NamedTuple):
    labels: np.ndarray
    train: np.ndarray
    senders: np.ndarray
    receivers: np.ndarray
    nodes: np.ndarray


class AdamState(NamedTuple):
    first: dict
    second: dict
    t: jax.Array


def initial_params(seed):
    rng = np.random.default_rng(seed)

    def kernel(i, o):
        return (rng.standard_normal((i, o)) / np.sqrt(i)).astype(np.float32)

    p = {"in_kernel": kernel(NUM_FEATS, WIDTH), "in_bias": np.zeros(WIDTH, np.float32)}
    for k in range(2):
        p[f"conv{k}_root"] = kernel(WIDTH, WIDTH)
        p[f"conv{k}_root_bias"] = np.zeros(WIDTH, np.float32)
        p[f"conv{k}_msg"] = kernel(WIDTH, WIDTH)
        p[f"conv{k}_msg_bias"] = np.zeros(WIDTH, np.float32)
        p[f"conv{k}_gain"] = np.ones(WIDTH, np.float32)
    p["cls_kernel"] = kernel(WIDTH, CLASSES)
    p["cls_bias"] = np.zeros(CLASSES, np.float32)
    return {k: jnp.asarray(v) for k, v in p.items()}


def mean_aggregate(h, graph):
    pool = lambda values: jax.ops.segment_sum(values, graph.receivers, num_segments=NUM_NODES)
    count, summed = pool(jnp.ones(NUM_EDGES, h.dtype)), pool(h[graph.senders])
    return summed / jnp.maximum(count, 1.0).reshape(-1, 1)


def logits_of(p, graph):
    h = jnp.tanh(jnp.einsum("nf,fh->nh", graph.nodes, p["in_kernel"]) + p["in_bias"])
    for k in range(2):
        agg = mean_aggregate(h, graph)
        u = (agg @ p[f"conv{k}_msg"] + p[f"conv{k}_msg_bias"]) + (h @ p[f"conv{k}_root"] + p[f"conv{k}_root_bias"])
        inv = jax.lax.rsqrt((u * u).mean(axis=-1, keepdims=True) + 1e-5)
        h = jax.nn.relu(p[f"conv{k}_gain"] * (u * inv)) + h
    return h @ p["cls_kernel"] + p["cls_bias"]


def objective(p, graph):
    logits = logits_of(p, graph)
    w = graph.train.astype(logits.dtype)
    onehot = jax.nn.one_hot(graph.labels, CLASSES, dtype=logits.dtype)
    per_node = -(onehot * jax.nn.log_softmax(logits, axis=-1)).sum(-1)
    hits = (logits.argmax(-1) == graph.labels) * w
    return (per_node * w).sum() / w.sum(), hits.sum() / w.sum()


def make_step(lr=3e-3, b1=0.9, b2=0.99, eps=1e-8, max_norm=1.0):

    def step(graph, state, p):
        (value, accuracy), g = jax.value_and_grad(objective, has_aux=True)(p, graph)
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(x)) for x in g.values()))
        g = {k: jnp.where(norm < max_norm, x, x / norm * max_norm) for k, x in g.items()}
        t = optax.safe_increment(state.t)
        c1, c2 = 1 - b1 ** t.astype(jnp.float32), 1 - b2 ** t.astype(jnp.float32)
        first = {k: b1 * state.first[k] + (1 - b1) * g[k] for k in p}
        second = {k: b2 * state.second[k] + (1 - b2) * jnp.square(g[k]) for k in p}
        p = {k: p[k] - lr * (first[k] / c1) / (jnp.sqrt(second[k] / c2) + eps) for k in p}
        return accuracy, value, AdamState(first, second, t), p

    return jax.jit(step)


def community_graph(seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, NUM_NODES).astype(np.int32)
    nodes = (np.eye(CLASSES, NUM_FEATS)[labels] + 0.7 * rng.standard_normal((NUM_NODES, NUM_FEATS))).astype(np.float32)
    senders = rng.integers(0, NUM_NODES, NUM_EDGES).astype(np.int32)
    same = np.array([rng.choice(np.flatnonzero(labels == labels[s])) for s in senders])
    receivers = np.where(rng.random(NUM_EDGES) < 0.8, same, rng.integers(0, NUM_NODES, NUM_EDGES)).astype(np.int32)
    return Graph(labels, rng.random(NUM_NODES) < 0.6, senders, receivers, nodes)


def main():
    p = initial_params(0)
    zeros = {k: jnp.zeros_like(v) for k, v in p.items()}
    state = AdamState(zeros, dict(zeros), jnp.zeros([], jnp.int32))
    step = make_step()
    for i in range(6):
        acc, value, state, p = step(community_graph(i % 2), state, p)
        print(i, f"{float(value):.6f} {float(acc):.4f}")
    print("norm %.6f" % float(jnp.sqrt(sum(jnp.sum(v * v) for v in p.values()))))


main()
