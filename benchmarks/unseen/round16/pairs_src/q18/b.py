"""Solubility model, port of the graph network to typed containers."""
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class Spec:
    kinds: int = 6
    max_nodes: int = 9
    width: int = 12
    bond_kinds: int = 3
    depth: int = 2


class Head(NamedTuple):
    out: jax.Array
    w: jax.Array
    c: jax.Array


class Hop(NamedTuple):
    stay: jax.Array
    offset: jax.Array
    relation: jax.Array


class Net(NamedTuple):
    head: Head
    hops: tuple
    lookup: jax.Array

    def __call__(self, kind, adjacency, present):
        state = self.lookup[kind] * present[..., None]
        for hop in self.hops:
            arriving = jnp.einsum("bkij,bjd,kde->bie", adjacency, state, hop.relation)
            kept = state @ hop.stay
            state = jnp.tanh(arriving + kept + hop.offset) * present[..., None]
        count = present.sum(1, keepdims=True)
        mean = state.sum(1) / count
        hidden = jnp.tanh(mean @ self.head.w + self.head.c)
        return (hidden @ self.head.out)[:, 0]


class Graphs(NamedTuple):
    y: jax.Array
    present: jax.Array
    adjacency: jax.Array
    kind: jax.Array


def build(spec, seed):
    r = np.random.default_rng(seed)
    g = lambda *s: jnp.asarray(r.normal(size=s) / np.sqrt(s[0]), jnp.float32)
    w, hops = spec.width, []
    lookup = g(spec.kinds, w)
    for _ in range(spec.depth):
        relation, stay = g(spec.bond_kinds, w, w), g(w, w)
        hops.append(Hop(stay, jnp.zeros(w), relation))
    hidden, out = g(w, w), g(w, 1)
    return Net(Head(out, hidden, jnp.zeros(w)), tuple(hops), lookup)


def log_cosh(net, graphs):
    diff = net(graphs.kind, graphs.adjacency, graphs.present) - graphs.y
    return jnp.mean(jnp.log(jnp.cosh(diff)))


@jax.jit
def update(lr, graphs, velocity, net):
    value, d_net = jax.value_and_grad(log_cosh)(net, graphs)
    velocity = jax.tree.map(lambda m, g: 0.9 * m + g, velocity, d_net)
    net = jax.tree.map(lambda p, m: p - lr * m, net, velocity)
    return value, net, velocity


def sample(rng, spec, n=8):
    size = rng.integers(4, spec.max_nodes + 1, n)
    here = (np.arange(spec.max_nodes)[None] < size[:, None]).astype(np.float32)
    adj = (rng.random((n, spec.bond_kinds, spec.max_nodes, spec.max_nodes)) < 0.15).astype(np.float32)
    adj = np.maximum(adj, adj.swapaxes(2, 3)) * here[:, None, :, None] * here[:, None, None]
    kind = rng.integers(0, spec.kinds, (n, spec.max_nodes))
    y = (kind * here).sum(1) / 20
    return Graphs(jnp.asarray(y, jnp.float32), jnp.asarray(here), jnp.asarray(adj), jnp.asarray(kind, jnp.int32))


if __name__ == "__main__":
    spec, rng = Spec(), np.random.default_rng(1)
    net = build(spec, 0)
    velocity = jax.tree.map(jnp.zeros_like, net)
    for it in range(30):
        value, net, velocity = update(0.01, sample(rng, spec), velocity, net)
        if it % 10 == 9:
            print(it, float(value))
