"""GCN for node labels.

Momentum SGD, clipped by global norm.
"""
import sys
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Weights(NamedTuple):
    gc_in: jax.Array
    gc_in_bias: jax.Array
    gc_mid: jax.Array
    gc_mid_bias: jax.Array
    readout: jax.Array
    readout_bias: jax.Array
    gain: jax.Array


def init(key, feat=10, hidden=16, classes=4):
    k1, k2, k3 = jax.random.split(key, 3)
    return Weights(jax.random.normal(k1, (feat, hidden)) * 0.1, jnp.zeros(hidden),
                  jax.random.normal(k2, (hidden, hidden)) * 0.1, jnp.zeros(hidden),
                  jax.random.normal(k3, (hidden, classes)) * 0.1, jnp.zeros(classes), jnp.ones(hidden))


def normalize(adj):
    adj = adj + jnp.eye(adj.shape[0])
    d = jax.lax.rsqrt(adj.sum(1))
    return adj * d[:, None] * d[None, :]


def gcn(p, adj, x):
    a = normalize(adj)
    h = jnp.maximum(a @ (x @ p.gc_in) + p.gc_in_bias, 0.0)
    h = h * jax.lax.rsqrt(jnp.mean(h * h, -1, keepdims=True) + 1e-6) * p.gain
    h = h + jnp.tanh(a @ (h @ p.gc_mid) + p.gc_mid_bias)
    return a @ (h @ p.readout) + p.readout_bias


def loss_fn(p, adj, x, y):
    logp = gcn(p, adj, x)
    logp = logp - jax.scipy.special.logsumexp(logp, axis=-1, keepdims=True)
    return -jnp.mean(jnp.sum(jax.nn.one_hot(y, logp.shape[-1]) * logp, -1))


def update(lr, features, labels, graph, velocity, params):
    loss, g = jax.value_and_grad(loss_fn)(params, graph, features, labels)
    norm = jnp.sqrt(sum(jnp.sum(t * t) for t in g))
    g = jax.tree.map(lambda t: t * jnp.minimum(1.0, 1.0 / (norm + 1e-6)), g)
    velocity = jax.tree.map(lambda v, t: 0.9 * v + t, velocity, g)
    params = jax.tree.map(lambda p, v: p - lr * v, params, velocity)
    return params, velocity, loss


if __name__ == "__main__":
    key = jax.random.key(0)
    params = init(key)
    vel = jax.tree.map(jnp.zeros_like, params)
    adj = (jax.random.uniform(key, (14, 14)) > 0.7).astype(jnp.float32)
    x, y = jax.random.normal(key, (14, 10)), jnp.arange(14) % 4
    low = jax.jit(update).lower(0.1, x, y, adj, vel, params)
    open(sys.argv[1], "w").write(low.compiler_ir("hlo").as_hlo_module().to_string())
