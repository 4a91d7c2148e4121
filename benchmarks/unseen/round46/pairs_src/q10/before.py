"""One decoding step of a small symbolic-music transformer: rotary KV cache, top-k + nucleus sampling."""
import sys

import jax
import jax.numpy as jnp

VOCAB, D, H, LAYERS, CACHE, B, TOPK = 48, 16, 2, 2, 12, 3, 20
DH = D // H


def init(key):
    def w(*shape):
        nonlocal key
        key, sub = jax.random.split(key)
        return jax.random.normal(sub, shape) / jnp.sqrt(shape[0])

    layers = [{"ln1": jnp.ones(D), "ln2": jnp.ones(D), "q": w(D, D), "kv": w(D, 2 * D),
               "o": w(D, D), "up": w(D, 2 * D), "down": w(2 * D, D)} for _ in range(LAYERS)]
    return {"embed": w(VOCAB, D), "layers": layers, "ln": jnp.ones(D)}


def layer_norm(x, g):
    x = x - x.mean(axis=-1, keepdims=True)
    return g * x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5)


def rotate(x, pos):
    """x [B, H, DH], pos [B]"""
    half = DH // 2
    freq = 1000.0 ** (-jnp.arange(half) / half)
    ang = pos[:, None, None] * freq
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * jnp.cos(ang) - b * jnp.sin(ang),
                            a * jnp.sin(ang) + b * jnp.cos(ang)], axis=-1)


def put(cache, new, pos):
    return jax.vmap(lambda c, n, p: jax.lax.dynamic_update_slice(c, n[None], (p, 0, 0)))(cache, new, pos)


def attention(p, x, cache, pos):
    q = (x @ p["q"]).reshape(B, H, DH)
    k, v = jnp.split(x @ p["kv"], 2, axis=-1)
    k, v = k.reshape(B, H, DH), v.reshape(B, H, DH)
    q, k = rotate(q, pos), rotate(k, pos)
    ks, vs = put(cache["k"], k, pos), put(cache["v"], v, pos)
    s = jnp.einsum("bhd,bthd->bht", q, ks) * DH ** -0.5
    s = jnp.where(jnp.arange(CACHE)[None, None] <= pos[:, None, None], s, -jnp.inf)
    out = jnp.einsum("bht,bthd->bhd", jax.nn.softmax(s, axis=-1), vs)
    return out.reshape(B, D) @ p["o"], {"k": ks, "v": vs}


def forward(params, cache, token, pos):
    x = params["embed"][token]
    new_cache = []
    for p, c in zip(params["layers"], cache):
        a, c = attention(p, layer_norm(x, p["ln1"]), c, pos)
        x = x + a
        x = x + jax.nn.gelu(layer_norm(x, p["ln2"]) @ p["up"]) @ p["down"]
        new_cache.append(c)
    return layer_norm(x, params["ln"]) @ params["embed"].T, new_cache


def sample(key, logits, counts, temperature, top_p):
    logits = logits - 0.4 * jnp.minimum(counts, 3.0)
    logits = logits / temperature
    vals, idx = jax.lax.top_k(logits, TOPK)
    probs = jax.nn.softmax(vals, axis=-1)
    before = jnp.cumsum(probs, axis=-1) - probs
    vals = jnp.where(before < top_p, vals, -jnp.inf)
    choice = jax.random.categorical(key, vals, axis=-1)
    token = jnp.take_along_axis(idx, choice[:, None], axis=-1)[:, 0]
    logp = jnp.take_along_axis(jax.nn.log_softmax(vals, axis=-1), choice[:, None], axis=-1)[:, 0]
    return token, logp


def step(params, state, temperature, top_p):
    key, sub = jax.random.split(state["key"])
    logits, cache = forward(params, state["cache"], state["token"], state["pos"])
    token, logp = sample(sub, logits, state["counts"], temperature, top_p)
    counts = 0.9 * state["counts"] + jax.nn.one_hot(token, VOCAB)
    return {"cache": cache, "token": token, "pos": state["pos"] + 1, "counts": counts,
            "score": state["score"] + logp, "key": key}


def main(out):
    params = init(jax.random.PRNGKey(4))
    zeros = jnp.zeros((B, CACHE, H, DH))
    state = {"cache": [{"k": zeros, "v": zeros} for _ in range(LAYERS)],
             "token": jnp.array([3, 17, 40]), "pos": jnp.array([0, 2, 1]),
             "counts": jnp.zeros((B, VOCAB)), "score": jnp.zeros(B), "key": jax.random.PRNGKey(9)}
    args = (jnp.float32(0.85), jnp.float32(0.9))
    lowered = jax.jit(step).lower(params, state, *args)
    with open(out, "w") as f:
        f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    run = jax.jit(step)
    for _ in range(5):
        state = run(params, state, *args)
        print(state["token"].tolist(), state["score"].tolist())


if __name__ == "__main__":
    main(sys.argv[1])
