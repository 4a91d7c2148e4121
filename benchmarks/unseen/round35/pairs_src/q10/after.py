"""One decoding step of a codon language model, with a key/value cache and rotary positions."""
import sys

import jax
import jax.numpy as jnp

B, D, HEADS, LAYERS, VOCAB, CTX = 3, 16, 2, 4, 66, 24
HD = D // HEADS


def init_params(key):
    keys = iter(jax.random.split(key, 64))
    n = lambda *s: (jax.random.normal(next(keys), s) / s[0] ** 0.5).astype(jnp.bfloat16)
    layers = [
        {
            "norm1": jnp.ones((D,)), "norm2": jnp.ones((D,)),
            "wq": n(D, D), "wk": n(D, D), "wv": n(D, D), "wo": n(D, D),
            "gate": n(D, 2 * D), "up": n(D, 2 * D), "down": n(2 * D, D),
        }
        for _ in range(LAYERS)
    ]
    return {"embed": n(VOCAB, D), "layers": layers, "norm": jnp.ones((D,))}


def rms_norm(x, g):
    x32 = x.astype(jnp.float32)
    x32 = x32 * jax.lax.rsqrt(jnp.mean(x32 * x32, axis=-1, keepdims=True) + 1e-6)
    return (x32 * g).astype(x.dtype)


def rotate(x, pos):
    """x [B, H, HD], pos [B]"""
    half = HD // 2
    freq = 10000.0 ** (-jnp.arange(half) / half)
    ang = pos[:, None, None] * freq
    cos, sin = jnp.cos(ang), jnp.sin(ang)
    x1, x2 = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], -1).astype(x.dtype)


def write(cache, new, pos):
    return jax.vmap(lambda c, n, p: jax.lax.dynamic_update_index_in_dim(c, n, p, 0))(cache, new, pos)


def attention(layer, x, ck, cv, pos):
    q = (x @ layer["wq"]).reshape(B, HEADS, HD)
    k = (x @ layer["wk"]).reshape(B, HEADS, HD)
    v = (x @ layer["wv"]).reshape(B, HEADS, HD)
    ck, cv = write(ck, k, pos), write(cv, v, pos)
    q, k = rotate(q, pos), rotate(k, pos)
    score = jnp.einsum("bhd,bthd->bht", q, ck, preferred_element_type=jnp.float32) * HD ** -0.5
    seen = jnp.arange(CTX)[None] <= pos[:, None]
    score = jnp.where(seen[:, None], score, -1e30)
    w = jax.nn.softmax(score, axis=-1).astype(x.dtype)
    out = jnp.einsum("bht,bthd->bhd", w, cv).reshape(B, D)
    return out @ layer["wo"], ck, cv


def decode_step(params, cache, tokens, pos, temperature, gumbel):
    x = params["embed"][tokens]
    new_cache = []
    for layer, (ck, cv) in zip(params["layers"], cache):
        a, ck, cv = attention(layer, rms_norm(x, layer["norm1"]), ck, cv, pos)
        x = x + a
        h = rms_norm(x, layer["norm2"])
        x = x + (jax.nn.silu(h @ layer["gate"]) * (h @ layer["up"])) @ layer["down"]
        new_cache.append((ck, cv))
    logits = (rms_norm(x, params["norm"]) @ params["embed"].T).astype(jnp.float32)
    logits = logits.at[:, :2].set(-jnp.inf)              # never emit <pad>, <bos>
    nxt = jnp.argmax(logits / temperature + gumbel, axis=-1).astype(jnp.int32)
    logp = jnp.take_along_axis(jax.nn.log_softmax(logits), nxt[:, None], axis=1)[:, 0]
    return new_cache, nxt, pos + 1, logp


def run(steps, path=None):
    params = init_params(jax.random.PRNGKey(0))
    z = jnp.zeros((B, CTX, HEADS, HD), jnp.bfloat16)
    cache = [(z, z) for _ in range(LAYERS)]
    tokens = jnp.array([1, 5, 40], jnp.int32)
    pos = jnp.array([0, 2, 3], jnp.int32)
    step = jax.jit(decode_step)
    hist = []
    for i in range(steps):
        g = jax.random.gumbel(jax.random.PRNGKey(9 + i), (B, VOCAB))
        if i == 0 and path:
            with open(path, "w") as f:
                f.write(step.lower(params, cache, tokens, pos, 0.8, g).compiler_ir("hlo").as_hlo_module().to_string())
        cache, tokens, pos, logp = step(params, cache, tokens, pos, 0.8, g)
        hist.append(logp.tolist())
    return hist


if __name__ == "__main__":
    for row in run(4, sys.argv[1]):
        print(row)
