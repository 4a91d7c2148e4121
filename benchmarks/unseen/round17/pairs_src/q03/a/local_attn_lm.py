"""Language model with local (sliding window) causal attention, plain JAX."""
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class ModelCfg(NamedTuple):
    vocab: int = 80
    dim: int = 32
    heads: int = 4
    depth: int = 2
    seq: int = 24
    window: int = 8
    lr: float = 3e-2


def init(key, cfg):
    def dense(k, n_in, n_out):
        return jax.random.normal(k, (n_in, n_out)) * n_in**-0.5

    keys = iter(jax.random.split(key, 4 * cfg.depth + 2))
    params = {
        "embed": jax.random.normal(next(keys), (cfg.vocab, cfg.dim)) * 0.05,
        "pos": jax.random.normal(next(keys), (cfg.seq, cfg.dim)) * 0.02,
        "blocks": [],
    }
    for _ in range(cfg.depth):
        params["blocks"].append({
            "qkv": dense(next(keys), cfg.dim, 3 * cfg.dim),
            "out": dense(next(keys), cfg.dim, cfg.dim),
            "up": dense(next(keys), cfg.dim, 2 * cfg.dim),
            "down": dense(next(keys), 2 * cfg.dim, cfg.dim),
            "g1": jnp.ones(cfg.dim),
            "g2": jnp.ones(cfg.dim),
        })
    return params


def rms_norm(x, gain):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * gain


def band_mask(length, window):
    q = jnp.arange(length)[:, None]
    k = jnp.arange(length)[None, :]
    return (k <= q) & (q - k < window)


def attention(block, x, cfg):
    b, t, d = x.shape
    q, k, v = jnp.split(x @ block["qkv"], 3, axis=-1)
    shape = (b, t, cfg.heads, d // cfg.heads)
    q, k, v = (z.reshape(shape).transpose(0, 2, 1, 3) for z in (q, k, v))
    att = q @ k.swapaxes(-1, -2) / np.sqrt(d // cfg.heads)
    att = jnp.where(band_mask(t, cfg.window), att, -1e30)
    y = jax.nn.softmax(att, axis=-1) @ v
    return y.transpose(0, 2, 1, 3).reshape(b, t, d) @ block["out"]


def forward(params, tokens, cfg):
    x = params["embed"][tokens] + params["pos"]
    for block in params["blocks"]:
        x = x + attention(block, rms_norm(x, block["g1"]), cfg)
        h = jax.nn.gelu(rms_norm(x, block["g2"]) @ block["up"])
        x = x + h @ block["down"]
    return x @ params["embed"].T


def loss_fn(params, tokens, targets, cfg):
    logp = jax.nn.log_softmax(forward(params, tokens, cfg))
    return -jnp.mean(jnp.take_along_axis(logp, targets[..., None], axis=-1))


@functools.partial(jax.jit, static_argnums=3)
def train_step(params, tokens, targets, cfg):
    loss, grads = jax.value_and_grad(loss_fn)(params, tokens, targets, cfg)
    params = jax.tree.map(lambda p, g: p - cfg.lr * g, params, grads)
    return params, loss


def main():
    cfg = ModelCfg()
    params = init(jax.random.PRNGKey(0), cfg)
    rng = np.random.default_rng(0)
    for step in range(3):
        start = rng.integers(0, cfg.vocab, (4, 1))
        seq = (start + 5 * np.arange(cfg.seq + 1)) % cfg.vocab
        params, loss = train_step(params, seq[:, :-1], seq[:, 1:], cfg)
        print(f"step {step}: {float(loss):.4f}")


if __name__ == "__main__":
    main()
