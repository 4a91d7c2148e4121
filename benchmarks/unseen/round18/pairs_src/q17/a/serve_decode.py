"""One decoding step of the chat model with a ring of cached keys and values (bfloat16 weights)."""
import dataclasses
import time

import jax
import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(frozen=True)
class ModelCfg:
    vocab: int = 96
    dim: int = 32
    heads: int = 4
    kv_heads: int = 2
    layers: int = 3
    cache: int = 24
    theta: float = 10000.0

    @property
    def head_dim(self):
        return self.dim // self.heads


def weights(cfg, seed=0):
    rng = np.random.default_rng(seed)

    def mat(*shape):
        return jnp.asarray(rng.normal(size=shape) / np.sqrt(shape[0]), jnp.bfloat16)

    kv = cfg.kv_heads * cfg.head_dim
    block = lambda: {
        "wq": mat(cfg.dim, cfg.dim), "wk": mat(cfg.dim, kv), "wv": mat(cfg.dim, kv), "wo": mat(cfg.dim, cfg.dim),
        "gate": mat(cfg.dim, 2 * cfg.dim), "up": mat(cfg.dim, 2 * cfg.dim), "down": mat(2 * cfg.dim, cfg.dim),
        "n1": jnp.ones(cfg.dim, jnp.bfloat16), "n2": jnp.ones(cfg.dim, jnp.bfloat16),
    }
    return {"emb": mat(cfg.vocab, cfg.dim), "blocks": [block() for _ in range(cfg.layers)],
            "norm": jnp.ones(cfg.dim, jnp.bfloat16)}


def rms(g, x):
    f = x.astype(jnp.float32)
    return g * (f * jax.lax.rsqrt(jnp.mean(f * f, -1, keepdims=True) + 1e-5)).astype(x.dtype)


def rope(cfg, x, pos):
    half = cfg.head_dim // 2
    ang = pos * cfg.theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
    sin, cos = jnp.sin(ang).astype(x.dtype), jnp.cos(ang).astype(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def attend(cfg, w, x, kc, vc, pos):
    b = x.shape[0]
    q = rope(cfg, (x @ w["wq"]).reshape(b, cfg.heads, cfg.head_dim), pos)
    k = rope(cfg, (x @ w["wk"]).reshape(b, cfg.kv_heads, cfg.head_dim), pos)
    v = (x @ w["wv"]).reshape(b, cfg.kv_heads, cfg.head_dim)
    kc = jax.lax.dynamic_update_slice(kc, k[:, None], (0, pos, 0, 0))
    vc = jax.lax.dynamic_update_slice(vc, v[:, None], (0, pos, 0, 0))
    q = q.reshape(b, cfg.kv_heads, -1, cfg.head_dim)
    s = jnp.einsum("bgqd,btgd->bgqt", q, kc).astype(jnp.float32) * cfg.head_dim ** -0.5
    s = jnp.where(jnp.arange(cfg.cache) <= pos, s, jnp.finfo(s.dtype).min)
    p = jax.nn.softmax(s, axis=-1).astype(x.dtype)
    return jnp.einsum("bgqt,btgd->bgqd", p, vc).reshape(b, cfg.dim) @ w["wo"], kc, vc


def decode(cfg, params, cache, token, pos):
    x = params["emb"][token]
    new = []
    for w, (kc, vc) in zip(params["blocks"], cache):
        h, kc, vc = attend(cfg, w, rms(w["n1"], x), kc, vc, pos)
        x = x + h
        h = rms(w["n2"], x)
        x = x + (jax.nn.silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"]
        new.append((kc, vc))
    logits = (rms(params["norm"], x) @ params["emb"].T).astype(jnp.float32)
    return jnp.argmax(logits, -1).astype(jnp.int32), new


def main():
    cfg, batch = ModelCfg(), 2
    params = weights(cfg)
    empty = lambda: jnp.zeros((batch, cfg.cache, cfg.kv_heads, cfg.head_dim), jnp.bfloat16)
    cache = [(empty(), empty()) for _ in range(cfg.layers)]
    step = jax.jit(decode, static_argnums=0, donate_argnums=2)
    token, out = jnp.zeros(batch, jnp.int32), []
    start = time.time()
    for pos in range(6):
        token, cache = step(cfg, params, cache, token, jnp.int32(pos))
        out.append(np.asarray(token))
    print(np.stack(out, 1).tolist(), f"{time.time() - start:.2f}s")


if __name__ == "__main__":
    main()
