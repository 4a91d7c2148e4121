"""Graph network regression on random molecules, padded to a fixed size.

Batch and parameters are typed records, the optimizer is written out by hand.
"""
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax


@dataclass(frozen=True)
class Spec:
    nodes: int = 40
    edges: int = 80
    feat: int = 6
    hid: int = 16
    rounds: int = 2
    graphs: int = 5
    lr: float = 3e-3
    b1: float = 0.9
    b2: float = 0.99
    eps: float = 1e-8
    ema: float = 0.99


class Dense(NamedTuple):
    kernel: jax.Array
    bias: jax.Array

    def __call__(self, x):
        return self.bias + x @ self.kernel


class Params(NamedTuple):
    rounds: tuple
    readout: Dense
    encode: Dense


class Graphs(NamedTuple):
    y: jax.Array
    x: jax.Array
    senders: jax.Array
    receivers: jax.Array
    owner: jax.Array
    node_mask: jax.Array
    edge_mask: jax.Array


class Moments(NamedTuple):
    nu: Params
    mu: Params
    count: jax.Array


def init(key, spec):
    def dense(k, n_in, n_out):
        return Dense(jax.random.normal(k, (n_in, n_out)) / jnp.sqrt(n_in), jnp.zeros(n_out))

    enc, out, *rest = jax.random.split(key, 2 + 2 * spec.rounds)
    width = 2 * spec.hid
    rounds = tuple((dense(a, width, spec.hid), dense(b, width, spec.hid))
                   for a, b in zip(rest[::2], rest[1::2]))
    return Params(rounds, dense(out, spec.hid, 1), dense(enc, spec.feat, spec.hid))


def normalise(x):
    centred = x - jnp.mean(x, -1, keepdims=True)
    return jax.lax.rsqrt(jnp.mean(jnp.square(centred), -1, keepdims=True) + 1e-5) * centred


def model(params, g, spec):
    h = jnp.tanh(params.encode(g.x))
    for message, update in params.rounds:
        received, sent = h[g.receivers], h[g.senders]
        m = g.edge_mask[:, None] * jax.nn.relu(message(jnp.concatenate((sent, received), 1)))
        agg = jax.ops.segment_sum(m, g.receivers, spec.nodes)
        h = normalise(jax.nn.relu(update(jnp.concatenate((h, agg), 1))) + h)
    pooled = jax.ops.segment_sum(g.node_mask[:, None] * h, g.owner, spec.graphs)
    return params.readout(pooled).squeeze(1)


def loss_fn(params, g, spec):
    residual = model(params, g, spec) - g.y
    size = jnp.abs(residual)
    per_graph = jnp.where(size <= 1.0, 0.5 * jnp.square(residual), size - 0.5)
    return jnp.mean(per_graph), jnp.mean(size)


def adam(grads, state, params, spec):
    t = optax.safe_increment(state.count)
    mu = jax.tree.map(lambda m, g: spec.b1 * m + (1 - spec.b1) * g, state.mu, grads)
    nu = jax.tree.map(lambda v, g: spec.b2 * v + (1 - spec.b2) * jnp.square(g), state.nu, grads)
    c1, c2 = 1 - spec.b1 ** t, 1 - spec.b2 ** t
    new = jax.tree.map(lambda p, m, v: p - spec.lr * (m / c1) / (jnp.sqrt(v / c2) + spec.eps),
                       params, mu, nu)
    return new, Moments(nu, mu, t)


@partial(jax.jit, static_argnames="spec")
def step_fn(graphs, average, moments, params, spec):
    (loss, mae), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, graphs, spec)
    params, moments = adam(grads, moments, params, spec)
    average = jax.tree.map(lambda e, p: (1 - spec.ema) * p + spec.ema * e, average, params)
    return {"mae": mae, "loss": loss}, average, moments, params


def make_graphs(rng, s):
    owner = np.sort(rng.integers(0, s.graphs, s.nodes)).astype(np.int32)
    senders = rng.integers(0, s.nodes, s.edges).astype(np.int32)
    receivers = rng.integers(0, s.nodes, s.edges).astype(np.int32)
    x = rng.normal(size=(s.nodes, s.feat)).astype(np.float32)
    y = np.bincount(owner, weights=x[:, 0], minlength=s.graphs).astype(np.float32)
    return Graphs(y, x, senders, receivers, owner,
                  node_mask=(np.arange(s.nodes) < s.nodes - 4).astype(np.float32),
                  edge_mask=(owner[senders] == owner[receivers]).astype(np.float32))


def main(steps=5, spec=Spec()):
    params = init(jax.random.PRNGKey(42), spec)
    zeros = jax.tree.map(jnp.zeros_like, params)
    moments, average = Moments(zeros, zeros, jnp.int32(0)), params
    rng = np.random.default_rng(42)
    for step in range(steps):
        metrics, average, moments, params = step_fn(
            make_graphs(rng, spec), average, moments, params, spec=spec)
        print(f"{step} loss {float(metrics['loss']):.6f} mae {float(metrics['mae']):.6f}")
    return params, average


if __name__ == "__main__":
    main()
