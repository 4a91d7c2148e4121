"""Two-tower retrieval between recipes and ingredient lists."""
import argparse

import jax
import jax.numpy as jnp
import numpy as np

VOCAB, EMB, OUT, WORDS, ITEMS, BATCH = 60, 16, 12, 10, 6, 16


def towers(rng):
    n = lambda *s: jnp.asarray(rng.normal(0, s[0] ** -0.5, s), jnp.float32)
    return {
        "recipe": {"table": n(VOCAB, EMB), "query": n(EMB, 1), "w": n(EMB, OUT), "b": jnp.zeros(OUT)},
        "pantry": {"table": n(VOCAB, EMB), "h": n(EMB, 24), "w": n(24, OUT), "b": jnp.zeros(OUT)},
        "temp": jnp.float32(0.5),
    }


def unit(v):
    return v / jnp.sqrt(jnp.sum(v * v, axis=-1, keepdims=True) + 1e-8)


def recipe_vec(p, tokens):
    e = p["table"][tokens]
    score = (e @ p["query"])[..., 0]
    score = jnp.exp(score - jax.lax.stop_gradient(score.max(-1, keepdims=True)))
    att = score / score.sum(-1, keepdims=True)
    pooled = jnp.einsum("bt,bte->be", att, e)
    return unit(jnp.tanh(pooled @ p["w"] + p["b"]))


def pantry_vec(p, items):
    e = p["table"][items].mean(1)
    return unit(jnp.maximum(e @ p["h"], 0.0) @ p["w"] + p["b"])


def contrast(params, tokens, items):
    r = recipe_vec(params["recipe"], tokens)
    i = pantry_vec(params["pantry"], items)
    logits = r @ i.T * jnp.exp(params["temp"])
    lse = jax.scipy.special.logsumexp(logits, axis=1)
    loss = jnp.mean(lse - jnp.diagonal(logits))
    return loss, logits


def step(params, moments, count, tokens, items):
    (loss, logits), grads = jax.value_and_grad(contrast, has_aux=True)(params, tokens, items)
    hit = jnp.mean(jnp.argmax(logits, axis=1) == jnp.arange(BATCH))
    count = count + 1.0
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments["m"], grads)
    v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * (g * g), moments["v"], grads)
    fix_m, fix_v = 1 - 0.9 ** count, 1 - 0.99 ** count
    params = jax.tree.map(lambda p, m, v: p - 3e-3 * (m / fix_m) / (jnp.sqrt(v / fix_v) + 1e-6), params, m, v)
    return params, {"m": m, "v": v}, count, loss, hit


def batch(rng):
    dish = rng.integers(0, VOCAB, BATCH)
    tokens = (dish[:, None] + rng.integers(0, 5, (BATCH, WORDS))) % VOCAB
    items = (dish[:, None] * 7 + rng.integers(0, 3, (BATCH, ITEMS))) % VOCAB
    return tokens.astype(np.int32), items.astype(np.int32)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--hlo")
    args = ap.parse_args()
    rng = np.random.default_rng(1)
    params = towers(rng)
    zero = jax.tree.map(jnp.zeros_like, params)
    moments, count = {"m": zero, "v": zero}, jnp.float32(0)
    if args.hlo:
        with open(args.hlo, "w") as f:
            f.write(jax.jit(step).lower(params, moments, count, *batch(rng)).as_text(dialect="hlo"))
    else:
        fast = jax.jit(step)
        for k in range(80):
            params, moments, count, loss, hit = fast(params, moments, count, *batch(rng))
            if k % 20 == 19:
                print(k + 1, float(loss), float(hit))
