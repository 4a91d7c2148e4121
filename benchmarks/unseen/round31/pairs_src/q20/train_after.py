"""Decoding of a small language model (grouped queries, rotary positions, key/value cache): nucleus sampling in one scan."""
import os
from functools import partial
from typing import NamedTuple

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np


class Config(NamedTuple):
    vocab: int = 50
    dim: int = 32
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    max_len: int = 24

    @property
    def head_dim(self):
        return self.dim // self.heads


class Sampling(NamedTuple):
    temperature: float = 0.8
    top_p: float = 0.9
    repetition_penalty: float = 1.2


def init_params(key, cfg):
    def dense(key, *shape):
        return jax.random.normal(key, shape) * shape[0] ** -0.5

    keys = iter(jax.random.split(key, 2 + 7 * cfg.layers))
    d, hd = cfg.dim, cfg.head_dim
    layers = []
    for _ in range(cfg.layers):
        layers.append(
            dict(
                wq=dense(next(keys), d, cfg.heads * hd),
                wk=dense(next(keys), d, cfg.kv_heads * hd),
                wv=dense(next(keys), d, cfg.kv_heads * hd),
                wo=dense(next(keys), cfg.heads * hd, d),
                gate=dense(next(keys), d, 2 * d),
                up=dense(next(keys), d, 2 * d),
                down=dense(next(keys), 2 * d, d),
                norm_att=jnp.ones(d),
                norm_mlp=jnp.ones(d),
            )
        )
    return dict(embed=dense(next(keys), cfg.vocab, d), layers=layers, norm=jnp.ones(d), head=dense(next(keys), d, cfg.vocab))


def rms_norm(x, w, eps=1e-6):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps) * w


def rope(x, pos):
    half = x.shape[-1] // 2
    ang = pos * 10000.0 ** (-jnp.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * jnp.cos(ang) - b * jnp.sin(ang), b * jnp.cos(ang) + a * jnp.sin(ang)], -1)


def decode_step(params, cache, tok, pos, cfg):
    """tok: (batch,), pos: scalar -> logits (batch, vocab) and the new cache."""
    b = tok.shape[0]
    x = params["embed"][tok]
    visible = jnp.arange(cfg.max_len) <= pos
    new_cache = []
    for p, (ck, cv) in zip(params["layers"], cache):
        h = rms_norm(x, p["norm_att"])
        q = rope((h @ p["wq"]).reshape(b, cfg.kv_heads, cfg.heads // cfg.kv_heads, cfg.head_dim), pos)
        k = rope((h @ p["wk"]).reshape(b, cfg.kv_heads, cfg.head_dim), pos)
        v = (h @ p["wv"]).reshape(b, cfg.kv_heads, cfg.head_dim)
        ck = jax.lax.dynamic_update_slice_in_dim(ck, k[:, None], pos, axis=1)
        cv = jax.lax.dynamic_update_slice_in_dim(cv, v[:, None], pos, axis=1)
        s = jnp.einsum("bkgd,btkd->bkgt", q, ck) * cfg.head_dim**-0.5
        w = jax.nn.softmax(jnp.where(visible, s, -1e9), -1)
        o = jnp.einsum("bkgt,btkd->bkgd", w, cv).reshape(b, -1)
        x = x + o @ p["wo"]
        h = rms_norm(x, p["norm_mlp"])
        x = x + (jax.nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]
        new_cache.append((ck, cv))
    return rms_norm(x, params["norm"]) @ params["head"], new_cache


def penalize(logits, seen, penalty):
    scaled = jnp.where(logits > 0, logits / penalty, logits * penalty)
    return jnp.where(seen, scaled, logits)


def nucleus(logits, top_p):
    order = jnp.argsort(-logits, axis=-1)
    probs = jax.nn.softmax(jnp.take_along_axis(logits, order, -1), -1)
    drop = (jnp.cumsum(probs, -1) > top_p).at[:, 0].set(False)
    drop = jnp.take_along_axis(drop, jnp.argsort(order, -1), -1)
    return jnp.where(drop, -jnp.inf, logits)


@partial(jax.jit, static_argnames=("cfg", "sampling"))
def generate(params, prompt, lengths, key, cfg, sampling):
    b = prompt.shape[0]
    shape = (b, cfg.max_len, cfg.kv_heads, cfg.head_dim)
    cache = [(jnp.zeros(shape), jnp.zeros(shape)) for _ in range(cfg.layers)]
    seen = jnp.zeros((b, cfg.vocab), bool)

    def body(carry, pos):
        cache, tok, seen, key = carry
        seen = seen.at[jnp.arange(b), tok].set(True)
        logits, cache = decode_step(params, cache, tok, pos, cfg)
        logits = penalize(logits, seen, sampling.repetition_penalty) / sampling.temperature
        key, sub = jax.random.split(key)
        nxt = jax.random.categorical(sub, nucleus(logits, sampling.top_p))
        given = prompt[:, jnp.minimum(pos + 1, prompt.shape[1] - 1)]
        nxt = jnp.where(pos + 1 < lengths, given, nxt)
        return (cache, nxt, seen, key), nxt

    carry = (cache, prompt[:, 0], seen, key)
    _, toks = jax.lax.scan(body, carry, jnp.arange(cfg.max_len - 1))
    return jnp.concatenate([prompt[:, :1], toks.T], 1)


def main():
    cfg = Config()
    params = init_params(jax.random.key(0), cfg)
    g = np.random.default_rng(0)
    prompt = jnp.asarray(g.integers(1, cfg.vocab, size=(4, 6)), jnp.int32)
    lengths = jnp.asarray([3, 6, 4, 5], jnp.int32)
    args = (params, prompt, lengths, jax.random.key(1), cfg, Sampling())
    if "DUMP" in os.environ:
        open(os.environ["DUMP"], "w").write(generate.lower(*args).as_text(dialect="hlo"))
    print(generate(*args))


if __name__ == "__main__":
    main()
