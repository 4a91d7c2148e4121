"""Tiny noise-prediction transformer (diffusion) in JAX."""
import sys
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Config(NamedTuple):
    dim: int = 16
    heads: int = 2
    depth: int = 2
    tokens: int = 8
    steps: int = 100
    eps: float = 1e-5
    lr: float = 3e-4
    wd: float = 0.01


class TrainState(NamedTuple):
    params: dict
    mu: dict
    nu: dict
    count: jax.Array


def linear_init(k, i, o):
    return {"kernel": jax.random.normal(k, (i, o)) * i ** -0.5, "bias": jnp.zeros((o,))}


def init_params(key, c):
    p = {}
    for i in range(c.depth):
        ks = jax.random.split(jax.random.fold_in(key, i), 4)
        p[f"block_{i}"] = {"scale1": jnp.ones(c.dim), "scale2": jnp.ones(c.dim),
                           "qkv": linear_init(ks[0], c.dim, 3 * c.dim), "proj": linear_init(ks[1], c.dim, c.dim),
                           "up": linear_init(ks[2], c.dim, 2 * c.dim), "down": linear_init(ks[3], 2 * c.dim, c.dim)}
    ks = jax.random.split(key, 3)
    p["inp"], p["time"], p["out"] = (linear_init(k, a, b) for k, a, b in
                                     zip(ks, (4, c.dim, c.dim), (c.dim, c.dim, 4)))
    return p


def lin(p, x):
    return x @ p["kernel"] + p["bias"]


def rms(x, scale, eps):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps) * scale


def timestep_embedding(t, dim):
    freqs = jnp.exp(-jnp.log(10000.0) * jnp.arange(dim // 2) / (dim // 2))
    a = t[:, None].astype(jnp.float32) * freqs
    return jnp.concatenate([jnp.cos(a), jnp.sin(a)], -1)


def denoise(c, params, x, t):
    h = lin(params["inp"], x) + lin(params["time"], timestep_embedding(t, c.dim))[:, None]
    b, n, d = h.shape
    for i in range(c.depth):
        p = params[f"block_{i}"]
        q, k, v = jnp.split(lin(p["qkv"], rms(h, p["scale1"], c.eps)), 3, -1)
        q, k, v = (z.reshape(b, n, c.heads, -1) for z in (q, k, v))
        w = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) * (d // c.heads) ** -0.5)
        h = h + lin(p["proj"], jnp.einsum("bhqk,bkhd->bqhd", w, v).reshape(b, n, d))
        h = h + lin(p["down"], jax.nn.silu(lin(p["up"], rms(h, p["scale2"], c.eps))))
    return lin(params["out"], h)


def loss_fn(params, c, x0, t, noise):
    betas = jnp.linspace(1e-4, 0.02, c.steps)
    abar = jnp.cumprod(1 - betas)[t][:, None, None]
    xt = jnp.sqrt(abar) * x0 + jnp.sqrt(1 - abar) * noise
    return jnp.mean((denoise(c, params, xt, t) - noise) ** 2)


def adamw(c, s, g):
    n = s.count + 1
    mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, s.mu, g)
    nu = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, s.nu, g)

    def upd(p, m, v):
        u = (m / (1 - 0.9 ** n)) / (jnp.sqrt(v / (1 - 0.999 ** n)) + 1e-8)
        return p - c.lr * (u + c.wd * p)
    return TrainState(jax.tree.map(upd, s.params, mu, nu), mu, nu, n)


@partial(jax.jit, static_argnums=0)
def train_step(c, state, x0, t, noise):
    loss, g = jax.value_and_grad(loss_fn)(state.params, c, x0, t, noise)
    return adamw(c, state, g), loss


def main(path):
    c = Config()
    key = jax.random.key(1)
    params = init_params(key, c)
    z = jax.tree.map(jnp.zeros_like, params)
    state = TrainState(params, z, z, jnp.zeros((), jnp.float32))
    x0 = jax.random.normal(key, (4, c.tokens, 4))
    t = jnp.array([3, 20, 55, 90])
    low = train_step.lower(c, state, x0, t, x0)
    open(path, "w").write(low.compiler_ir("hlo").as_hlo_module().to_string())


main(sys.argv[1])
