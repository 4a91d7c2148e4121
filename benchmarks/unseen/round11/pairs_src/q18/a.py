"""Graph convolution node classifier in JAX, SGD with momentum."""
import sys
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Params(NamedTuple):
    w1: jax.Array
    b1: jax.Array
    w2: jax.Array
    b2: jax.Array
    w3: jax.Array
    b3: jax.Array
    scale: jax.Array


def init(key, feat=10, hidden=16, classes=4):
    k1, k2, k3 = jax.random.split(key, 3)
    return Params(jax.random.normal(k1, (feat, hidden)) * 0.1, jnp.zeros(hidden),
                  jax.random.normal(k2, (hidden, hidden)) * 0.1, jnp.zeros(hidden),
                  jax.random.normal(k3, (hidden, classes)) * 0.1, jnp.zeros(classes), jnp.ones(hidden))


def normalize(adj):
    adj = adj + jnp.eye(adj.shape[0])
    d = jax.lax.rsqrt(adj.sum(1))
    return adj * d[:, None] * d[None, :]


def forward(p, adj, x):
    a = normalize(adj)
    h = jnp.maximum(a @ (x @ p.w1) + p.b1, 0.0)
    h = h * jax.lax.rsqrt(jnp.mean(h * h, -1, keepdims=True) + 1e-6) * p.scale
    h = h + jnp.tanh(a @ (h @ p.w2) + p.b2)
    return a @ (h @ p.w3) + p.b3


def loss_fn(p, adj, x, y):
    logp = forward(p, adj, x)
    logp = logp - jax.scipy.special.logsumexp(logp, axis=-1, keepdims=True)
    return -jnp.mean(jnp.sum(jax.nn.one_hot(y, logp.shape[-1]) * logp, -1))


def train_step(params, velocity, adj, x, y, lr):
    loss, g = jax.value_and_grad(loss_fn)(params, adj, x, y)
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
    low = jax.jit(train_step).lower(params, vel, adj, x, y, 0.1)
    open(sys.argv[1], "w").write(low.compiler_ir("hlo").as_hlo_module().to_string())
