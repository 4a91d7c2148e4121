"""One decoding step of a small symbolic-music decoder (grouped-query attention, rotary, KV cache).

usage: before.py OUT      writes the HLO of one decoding step
"""
import sys
import jax
import jax.numpy as jnp

VOCAB, DIM, HEADS, GROUPS, LAYERS, MAXLEN, BATCH = 64, 32, 4, 2, 3, 16, 2
HEAD = DIM // HEADS


def init(key):
    def mat(key, *shape):
        return jax.random.normal(key, shape) / jnp.sqrt(shape[0])

    layers = []
    for k in jax.random.split(key, LAYERS):
        ks = jax.random.split(k, 7)
        layers.append({
            "norm1": jnp.ones(DIM),
            "wq": mat(ks[0], DIM, HEADS * HEAD),
            "wk": mat(ks[1], DIM, GROUPS * HEAD),
            "wv": mat(ks[2], DIM, GROUPS * HEAD),
            "wo": mat(ks[3], HEADS * HEAD, DIM),
            "norm2": jnp.ones(DIM),
            "up": mat(ks[4], DIM, 2 * DIM),
            "gate": mat(ks[5], DIM, 2 * DIM),
            "down": mat(ks[6], 2 * DIM, DIM),
        })
    return {"embed": mat(key, VOCAB, DIM), "layers": layers, "norm": jnp.ones(DIM)}


def rms_norm(x, weight):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * weight


def rotary(x, pos):
    half = HEAD // 2
    freq = 1.0 / 10000.0 ** (jnp.arange(half) / half)
    angle = pos * freq
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    x1, x2 = x[..., :half], x[..., half:]
    return jnp.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


def expand_groups(x):
    """[B, S, GROUPS, HEAD] -> [B, S, HEADS, HEAD]"""
    return jnp.repeat(x, HEADS // GROUPS, axis=2)


def attention(p, x, cache, pos):
    q = rotary((x @ p["wq"]).reshape(BATCH, HEADS, HEAD), pos)
    k = rotary((x @ p["wk"]).reshape(BATCH, GROUPS, HEAD), pos)
    v = (x @ p["wv"]).reshape(BATCH, GROUPS, HEAD)
    keys = jax.lax.dynamic_update_slice(cache["k"], k[:, None], (0, pos, 0, 0))
    values = jax.lax.dynamic_update_slice(cache["v"], v[:, None], (0, pos, 0, 0))
    score = jnp.einsum("bhd,bshd->bhs", q, expand_groups(keys)) / jnp.sqrt(HEAD)
    score = jnp.where(jnp.arange(MAXLEN) <= pos, score, -1e9)
    out = jnp.einsum("bhs,bshd->bhd", jax.nn.softmax(score), expand_groups(values))
    return out.reshape(BATCH, -1) @ p["wo"], {"k": keys, "v": values}


def decode_step(params, cache, token, pos, key):
    x = params["embed"][token]
    new_cache = []
    for p, c in zip(params["layers"], cache):
        att, c = attention(p, rms_norm(x, p["norm1"]), c, pos)
        x = x + att
        h = rms_norm(x, p["norm2"])
        x = x + (jax.nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]
        new_cache.append(c)
    logits = rms_norm(x, params["norm"]) @ params["embed"].T
    top, index = jax.lax.top_k(logits / 0.8, 8)
    choice = jax.random.categorical(key, top)
    return jnp.take_along_axis(index, choice[:, None], axis=1)[:, 0], new_cache


def main(out):
    key = jax.random.PRNGKey(6)
    params = init(key)
    zeros = lambda: jnp.zeros((BATCH, MAXLEN, GROUPS, HEAD))
    cache = [{"k": zeros(), "v": zeros()} for _ in range(LAYERS)]
    token = jnp.array([3, 7])
    step = jax.jit(decode_step)
    with open(out, "w") as f:
        lowered = step.lower(params, cache, token, jnp.int32(0), key)
        f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(5):
        key, sub = jax.random.split(key)
        token, cache = step(params, cache, token, jnp.int32(i), sub)
        print(i, token.tolist())


if __name__ == "__main__":
    main(sys.argv[1])
