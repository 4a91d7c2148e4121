"""Decoding step of a codebook music model: KV cache, delay pattern, guidance, nucleus sampling (JAX)."""
import os
from functools import partial

import jax
import jax.numpy as jnp

BOOKS, VOCAB, DIM, HEADS, LAYERS, MAX_LEN, BATCH = 3, 24, 16, 2, 2, 12, 2
HEAD = DIM // HEADS
PAD = VOCAB
OUT = {"before.py": "a.hlo", "after.py": "b.hlo"}[os.path.basename(__file__)]


def init(key):
    ks = iter(jax.random.split(key, 64))
    normal = lambda *s: jax.random.normal(next(ks), s) * 0.3
    layers = [{
        "ln1": jnp.ones(DIM), "ln2": jnp.ones(DIM),
        "qkv": normal(DIM, 3 * DIM), "o": normal(DIM, DIM),
        "up": normal(DIM, 2 * DIM), "gate": normal(DIM, 2 * DIM), "down": normal(2 * DIM, DIM),
    } for _ in range(LAYERS)]
    return {"emb": normal(BOOKS, VOCAB + 1, DIM), "cond": normal(8, DIM), "layers": layers,
            "ln": jnp.ones(DIM), "heads": normal(BOOKS, DIM, VOCAB)}


def rms_norm(g, x):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g


def rope(x, pos):
    half = HEAD // 2
    freq = 1.0 / (10000.0 ** (jnp.arange(half) / half))
    ang = pos * freq
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * jnp.cos(ang) - b * jnp.sin(ang),
                            a * jnp.sin(ang) + b * jnp.cos(ang)], axis=-1)


def attend(p, x, cache, pos):
    q, k, v = jnp.split(x @ p["qkv"], 3, axis=-1)
    q, k, v = (t.reshape(-1, HEADS, HEAD) for t in (q, k, v))
    q, k = rope(q, pos), rope(k, pos)
    ck = jax.lax.dynamic_update_slice(cache["k"], k[:, None], (0, pos, 0, 0))
    cv = jax.lax.dynamic_update_slice(cache["v"], v[:, None], (0, pos, 0, 0))
    scores = jnp.einsum("bhd,bthd->bht", q, ck) / jnp.sqrt(HEAD)
    scores = jnp.where(jnp.arange(MAX_LEN) <= pos, scores, -1e9)
    out = jnp.einsum("bht,bthd->bhd", jax.nn.softmax(scores, axis=-1), cv)
    return out.reshape(-1, DIM) @ p["o"], {"k": ck, "v": cv}


def model(params, tokens, cond, caches, pos):
    x = sum(params["emb"][i][tokens[:, i]] for i in range(BOOKS))
    x = x + cond @ params["cond"]
    new = []
    for p, cache in zip(params["layers"], caches):
        att, cache = attend(p, rms_norm(p["ln1"], x), cache, pos)
        x = x + att
        h = rms_norm(p["ln2"], x)
        x = x + (jax.nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]
        new.append(cache)
    return jnp.einsum("bd,kdv->bkv", rms_norm(params["ln"], x), params["heads"]), new


def nucleus(logits, top_p):
    """Masks the tokens outside the smallest set with mass >= top_p."""
    order = jnp.argsort(-logits, axis=-1)
    ranked = jnp.take_along_axis(logits, order, axis=-1)
    probs = jax.nn.softmax(ranked, axis=-1)
    before = jnp.cumsum(probs, axis=-1) - probs
    cutoff = jnp.where(before < top_p, ranked, jnp.inf).min(-1, keepdims=True)
    return jnp.where(logits < cutoff, -jnp.inf, logits)


def decode_step(params, tokens, cond, caches, pos, key, temperature, top_p, guidance):
    both = jnp.concatenate([cond, jnp.zeros_like(cond)], axis=0)
    logits, caches = model(params, jnp.concatenate([tokens, tokens], axis=0), both, caches, pos)
    with_c, without = jnp.split(logits, 2, axis=0)
    logits = without + guidance * (with_c - without)
    logits = logits / temperature
    logits = nucleus(logits, top_p)
    key, sub = jax.random.split(key)
    nxt = jax.random.categorical(sub, logits, axis=-1)
    # delay pattern: book k starts k steps late
    nxt = jnp.where(pos >= jnp.arange(BOOKS), nxt, PAD)
    return nxt, caches, pos + 1, key


def main():
    params = init(jax.random.key(0))
    caches = [{n: jnp.zeros((2 * BATCH, MAX_LEN, HEADS, HEAD)) for n in "kv"} for _ in range(LAYERS)]
    tokens = jnp.full((BATCH, BOOKS), PAD)
    cond = jax.random.normal(jax.random.key(1), (BATCH, 8))
    pos, key = jnp.int32(0), jax.random.key(2)
    knobs = (jnp.float32(1.6), jnp.float32(0.8), jnp.float32(2.0))
    step = jax.jit(decode_step, donate_argnums=(3,))
    text = step.lower(params, tokens, cond, caches, pos, key, *knobs).compiler_ir("hlo").as_hlo_module().to_string()
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), OUT), "w") as f:
        f.write(text)
    for _ in range(8):
        tokens, caches, pos, key = step(params, tokens, cond, caches, pos, key, *knobs)
        print(int(pos), tokens.tolist())


if __name__ == "__main__":
    main()
