"""Token-mixing MLP regressor in bfloat16, plain JAX."""
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Config(NamedTuple):
    tokens: int = 12
    dim: int = 16
    hidden: int = 32
    depth: int = 2
    batch: int = 4
    base_lr: float = 0.02
    warmup: int = 3
    total: int = 20
    beta: float = 0.9
    dtype: jnp.dtype = jnp.bfloat16


cfg = Config()


def dense(key, n_in, n_out):
    w = jax.random.normal(key, (n_in, n_out)) / np.sqrt(n_in)
    return {"w": w.astype(cfg.dtype), "b": jnp.zeros((n_out,), cfg.dtype)}


def init_params(key):
    keys = iter(jax.random.split(key, 4 * cfg.depth + 2))
    layers = []
    for _ in range(cfg.depth):
        layers.append({
            "scale_tok": jnp.ones((cfg.dim,), cfg.dtype),
            "tok_in": dense(next(keys), cfg.tokens, cfg.hidden),
            "tok_out": dense(next(keys), cfg.hidden, cfg.tokens),
            "scale_ch": jnp.ones((cfg.dim,), cfg.dtype),
            "ch_in": dense(next(keys), cfg.dim, cfg.hidden),
            "ch_out": dense(next(keys), cfg.hidden, cfg.dim),
        })
    return {"layers": layers, "head": dense(next(keys), cfg.dim, 1)}


def apply_dense(p, x):
    return x @ p["w"] + p["b"]


def rms(x, scale):
    ms = jnp.mean(jnp.square(x), axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(ms + 1e-6) * scale


def forward(params, x):
    h = x.astype(cfg.dtype)
    for p in params["layers"]:
        t = rms(h, p["scale_tok"]).swapaxes(1, 2)
        t = apply_dense(p["tok_out"], jax.nn.gelu(apply_dense(p["tok_in"], t)))
        h = h + t.swapaxes(1, 2)
        c = rms(h, p["scale_ch"])
        h = h + apply_dense(p["ch_out"], jax.nn.gelu(apply_dense(p["ch_in"], c)))
    return apply_dense(params["head"], h.mean(axis=1))[:, 0]


def loss_fn(params, x, y):
    pred = forward(params, x)
    err = pred.astype(jnp.float32) - y
    return jnp.mean(jnp.where(jnp.abs(err) < 1.0, 0.5 * err**2, jnp.abs(err) - 0.5))


def learning_rate(step):
    step = step.astype(jnp.float32)
    warm = (step + 1.0) / cfg.warmup
    cos = 0.5 * (1.0 + jnp.cos(jnp.pi * step / cfg.total))
    return cfg.base_lr * jnp.minimum(warm, cos)


@jax.jit
def train_step(params, velocity, step, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    lr = learning_rate(step)
    velocity = jax.tree.map(lambda v, g: cfg.beta * v + g, velocity, grads)
    params = jax.tree.map(lambda p, v: p - lr * v, params, velocity)
    return params, velocity, step + 1, loss


def make_batch(rng):
    x = rng.normal(size=(cfg.batch, cfg.tokens, cfg.dim)).astype(np.float32)
    y = np.tanh(x[:, :3].sum(axis=(1, 2)) / 4).astype(np.float32)
    return x, y


def main():
    rng = np.random.default_rng(0)
    params = init_params(jax.random.PRNGKey(0))
    velocity = jax.tree.map(jnp.zeros_like, params)
    step = jnp.zeros((), jnp.int32)
    for i in range(5):
        x, y = make_batch(rng)
        params, velocity, step, loss = train_step(params, velocity, step, x, y)
        print(f"{i} {float(loss):.4f}")


if __name__ == "__main__":
    main()
