"""Melody model (event tokens): short training run, then cached sampling with top-k / top-p filtering."""
import argparse
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

VOCAB, DIM, HEADS, LAYERS, MAX_LEN = 32, 16, 2, 2, 24
HD = DIM // HEADS


def init(key):
    ks = iter(jax.random.split(key, 4 * LAYERS + 2))
    mat = lambda i, o: jax.random.normal(next(ks), (i, o)) / np.sqrt(i)
    return {
        "tok": 0.4 * jax.random.normal(next(ks), (VOCAB, DIM)),
        "blocks": [{"qkv": mat(DIM, 3 * DIM), "o": mat(DIM, DIM), "w1": mat(DIM, 2 * DIM), "w2": mat(2 * DIM, DIM),
                    "g1": jnp.ones(DIM), "g2": jnp.ones(DIM)} for _ in range(LAYERS)],
        "gf": jnp.ones(DIM),
    }


def norm(x, g):
    return g * x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def rope(x, pos):
    half = HD // 2
    ang = pos[..., None, None] * (100.0 ** (-jnp.arange(half) / half))
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * jnp.cos(ang) - b * jnp.sin(ang), a * jnp.sin(ang) + b * jnp.cos(ang)], -1)


def forward(params, tokens):
    n = tokens.shape[1]
    pos = jnp.arange(n, dtype=jnp.float32)
    causal = jnp.tril(jnp.ones((n, n), bool))
    h = params["tok"][tokens]
    for p in params["blocks"]:
        q, k, v = jnp.split(norm(h, p["g1"]) @ p["qkv"], 3, -1)
        q, k, v = (a.reshape(*a.shape[:2], HEADS, HD) for a in (q, k, v))
        s = jnp.einsum("bihd,bjhd->bhij", rope(q, pos), rope(k, pos)) / np.sqrt(HD)
        w = jax.nn.softmax(jnp.where(causal, s, -jnp.inf), -1)
        h = h + jnp.einsum("bhij,bjhd->bihd", w, v).reshape(h.shape) @ p["o"]
        h = h + jax.nn.silu(norm(h, p["g2"]) @ p["w1"]) @ p["w2"]
    return norm(h, params["gf"]) @ params["tok"].T


def decode_one(params, cache, token, pos):
    """token (b,), pos scalar; cache: list of (k, v), each (b, MAX_LEN, heads, hd)."""
    h = params["tok"][token]
    fpos = jnp.full(token.shape, pos, jnp.float32)
    seen = jnp.arange(MAX_LEN) <= pos
    new_cache = []
    for p, (ck, cv) in zip(params["blocks"], cache):
        q, k, v = (a.reshape(-1, HEADS, HD) for a in jnp.split(norm(h, p["g1"]) @ p["qkv"], 3, -1))
        ck = jax.lax.dynamic_update_slice_in_dim(ck, rope(k, fpos)[:, None], pos, axis=1)
        cv = jax.lax.dynamic_update_slice_in_dim(cv, v[:, None], pos, axis=1)
        s = jnp.einsum("bhd,bjhd->bhj", rope(q, fpos), ck) / np.sqrt(HD)
        w = jax.nn.softmax(jnp.where(seen, s, -jnp.inf), -1)
        h = h + jnp.einsum("bhj,bjhd->bhd", w, cv).reshape(h.shape) @ p["o"]
        h = h + jax.nn.silu(norm(h, p["g2"]) @ p["w1"]) @ p["w2"]
        new_cache.append((ck, cv))
    return norm(h, params["gf"]) @ params["tok"].T, new_cache


def filter_logits(logits, top_k, top_p):
    kth = jax.lax.top_k(logits, top_k)[0][..., -1:]
    logits = jnp.where(logits < kth, -jnp.inf, logits)
    order = jnp.argsort(-logits, axis=-1)
    ranked = jnp.take_along_axis(logits, order, axis=-1)
    mass = jnp.cumsum(jax.nn.softmax(ranked, axis=-1), axis=-1)
    ranked = jnp.where((mass <= top_p).at[..., 0].set(True), ranked, -jnp.inf)
    return jnp.take_along_axis(ranked, jnp.argsort(order, axis=-1), axis=-1)


@partial(jax.jit, static_argnames=("top_k",))
def sample_step(params, cache, token, pos, key, temperature, top_p, top_k=12):
    logits, cache = decode_one(params, cache, token, pos)
    logits = filter_logits(logits / temperature, top_k, top_p)
    key, sub = jax.random.split(key)
    return cache, jax.random.categorical(sub, logits, axis=-1), key


def sample(params, key, first, dump=None, temperature=0.9, top_p=0.8):
    shape = (first.shape[0], MAX_LEN, HEADS, HD)
    cache = [(jnp.zeros(shape), jnp.zeros(shape)) for _ in range(LAYERS)]
    token, out = first, [first]
    for pos in range(MAX_LEN - 1):
        args = (params, cache, token, jnp.int32(pos), key, jnp.float32(temperature), jnp.float32(top_p))
        if pos == 0 and dump:
            open(dump, "w").write(sample_step.lower(*args).as_text(dialect="hlo"))
        cache, token, key = sample_step(*args)
        out.append(token)
    return jnp.stack(out, axis=1)


def melodies(rng, n):
    start = rng.integers(0, VOCAB, (n, 1))
    steps = rng.choice([-2, -1, 1, 2, 7], size=(n, MAX_LEN - 1), p=[0.2, 0.25, 0.3, 0.2, 0.05])
    return np.concatenate([start, (start + np.cumsum(steps, 1)) % VOCAB], axis=1).astype(np.int32)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--dump", default=None)
    args = ap.parse_args()
    rng = np.random.default_rng(2)
    params = init(jax.random.PRNGKey(2))
    tx = optax.adam(3e-3)
    state = tx.init(params)

    @jax.jit
    def train_step(params, state, batch):
        def loss_fn(p):
            return optax.softmax_cross_entropy_with_integer_labels(forward(p, batch[:, :-1]), batch[:, 1:]).mean()
        loss, grads = jax.value_and_grad(loss_fn)(params)
        updates, state = tx.update(grads, state)
        return optax.apply_updates(params, updates), state, loss

    for i in range(args.steps):
        params, state, loss = train_step(params, state, melodies(rng, 16))
        if i % 20 == 0:
            print(i, float(loss))
    tunes = sample(params, jax.random.PRNGKey(9), jnp.arange(4, dtype=jnp.int32) * 8, args.dump)
    for row in np.asarray(tunes):
        print(" ".join(map(str, row)))


if __name__ == "__main__":
    main()
