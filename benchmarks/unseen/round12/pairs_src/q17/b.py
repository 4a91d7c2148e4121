"""Decoder-only transformer over event sequences (JAX), Adafactor-free plain AdamW."""
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class HParams(NamedTuple):
    vocab: int = 40
    dim: int = 16
    heads: int = 2
    depth: int = 2
    length: int = 10
    batch: int = 4
    lr: float = 1e-3
    wd: float = 0.01
    clip: float = 1.0


HP = HParams()


class State(NamedTuple):
    params: dict
    mu: dict
    nu: dict
    count: jax.Array


def rms_norm(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def attention(p, x):
    b, t, d = x.shape
    split = lambda y: y.reshape(b, t, HP.heads, d // HP.heads)
    q, k, v = split(x @ p["wq"]), split(x @ p["wk"]), split(x @ p["wv"])
    logits = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(d // HP.heads)
    pos = jnp.arange(t)
    visible = pos[None, :] < pos[:, None]
    logits = jnp.where(visible, logits, -1e9)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(logits), v).reshape(b, t, d) @ p["wo"]


def swiglu(p, x):
    return (jax.nn.silu(x @ p["gate"]) * (x @ p["up"])) @ p["down"]


def model(params, ids):
    x = params["embed"][ids] + params["pos"]
    for p in params["layers"]:
        x = x + attention(p, rms_norm(x, p["norm_a"]))
        x = x + swiglu(p, rms_norm(x, p["norm_m"]))
    return rms_norm(x, params["norm"]) @ params["embed"].T


def objective(params, ids):
    logits = model(params, ids[:, :-1])
    gold = jax.nn.one_hot(ids[:, 1:], HP.vocab)
    return -(gold * jax.nn.log_softmax(logits)).sum(-1).mean()


def clip_by_global_norm(grads, limit):
    norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(grads)))
    return jax.tree.map(lambda g: g * jnp.minimum(1.0, limit / (norm + 1e-6)), grads), norm


def train_step(state, ids):
    loss, grads = jax.value_and_grad(objective)(state.params, ids)
    grads, norm = clip_by_global_norm(grads, HP.clip)
    count = state.count + 1
    mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state.mu, grads)
    nu = jax.tree.map(lambda n, g: 0.95 * n + 0.05 * g * g, state.nu, grads)
    fix = jnp.sqrt(1 - 0.95 ** count) / (1 - 0.9 ** count)
    params = jax.tree.map(lambda p, m, n: p - HP.lr * (fix * m / (jnp.sqrt(n) + 1e-8) + HP.wd * p), state.params, mu, nu)
    return State(params, mu, nu, count), {"loss": loss, "grad_norm": norm}


def create(key):
    ks = iter(jax.random.split(key, 64))
    w = lambda *s: jax.random.normal(next(ks), s) / np.sqrt(s[0])
    d = HP.dim
    layer = lambda: {"wq": w(d, d), "wk": w(d, d), "wv": w(d, d), "wo": w(d, d), "gate": w(d, 2 * d), "up": w(d, 2 * d),
                     "down": w(2 * d, d), "norm_a": jnp.ones(d), "norm_m": jnp.ones(d)}
    params = {"embed": w(HP.vocab, d), "pos": 0.02 * w(HP.length, d), "norm": jnp.ones(d),
              "layers": [layer() for _ in range(HP.depth)]}
    zero = jax.tree.map(jnp.zeros_like, params)
    return State(params, zero, zero, jnp.zeros(()))


def events(rng):
    start = rng.integers(0, HP.vocab, (HP.batch, 1))
    return jnp.asarray((start * 3 + 7 * np.arange(HP.length + 1)) % HP.vocab)


def example_args():
    return create(jax.random.key(1)), events(np.random.default_rng(0))


if __name__ == "__main__":
    rng, state, step = np.random.default_rng(2), create(jax.random.key(1)), jax.jit(train_step)
    for i in range(18):
        state, metrics = step(state, events(rng))
        if i % 6 == 0:
            print(i, {k: round(float(v), 4) for k, v in metrics.items()})
