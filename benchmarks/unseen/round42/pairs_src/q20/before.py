"""One decoding step of a small gated linear recurrence + local attention model (symbolic music), top-p sampling."""
import sys

import jax
import jax.numpy as jnp

VOCAB, DIM, HEADS, WINDOW, LAYERS, B = 20, 16, 2, 5, 3, 3
HD = DIM // HEADS
PATTERN = ("rec", "att", "rec")


def init(key):
    ks = iter(jax.random.split(key, 64))
    w = lambda i, o: jax.random.normal(next(ks), (i, o)) / jnp.sqrt(i)
    layers = []
    for kind in PATTERN:
        p = {"norm1": jnp.ones(DIM), "norm2": jnp.ones(DIM),
             "up": w(DIM, 4 * DIM), "down": w(2 * DIM, DIM)}
        if kind == "rec":
            p.update(inp=w(DIM, DIM), gate=w(DIM, DIM), a=w(DIM, DIM), r=w(DIM, DIM), out=w(DIM, DIM),
                     lam=jnp.linspace(0.5, 3.0, DIM), conv=w(3, DIM))
        else:
            p.update(q=w(DIM, DIM), kv=w(DIM, 2 * HD), out=w(DIM, DIM))
        layers.append(p)
    return {"emb": w(VOCAB, DIM), "layers": layers, "norm": jnp.ones(DIM)}


def empty_cache():
    caches = []
    for kind in PATTERN:
        if kind == "rec":
            caches.append({"h": jnp.zeros((B, DIM)), "conv": jnp.zeros((B, 2, DIM))})
        else:
            caches.append({"k": jnp.zeros((B, WINDOW, HD)), "v": jnp.zeros((B, WINDOW, HD))})
    return caches


def rms(x, g):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * g


def rope(x, pos):
    """x [..., HD], pos broadcast against the leading axes"""
    half = HD // 2
    freq = 1e4 ** (-jnp.arange(half) / half)
    ang = jnp.asarray(pos)[..., None] * freq
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * jnp.cos(ang) - b * jnp.sin(ang),
                            b * jnp.cos(ang) + a * jnp.sin(ang)], -1)


def recurrent(p, c, x):
    gate = jax.nn.gelu(x @ p["gate"])
    u = x @ p["inp"]
    win = jnp.concatenate([c["conv"], u[:, None]], 1)
    u = jnp.sum(win * p["conv"], 1)
    log_a = -8.0 * jax.nn.sigmoid(u @ p["r"]) * jax.nn.softplus(p["lam"])
    i = jax.nn.sigmoid(u @ p["a"])
    h = jnp.exp(log_a) * c["h"] + jnp.sqrt(-jnp.expm1(2 * log_a)) * (i * u)
    return (h * gate) @ p["out"], {"h": h, "conv": win[:, 1:]}


def attention(p, c, x, pos):
    """one key/value head shared by all query heads, ring buffer of WINDOW entries"""
    q = rope((x @ p["q"]).reshape(B, HEADS, HD), pos)
    k, v = jnp.split(x @ p["kv"], 2, -1)
    slot = pos % WINDOW
    ks = jax.lax.dynamic_update_slice_in_dim(c["k"], rope(k, pos)[:, None], slot, 1)
    vs = jax.lax.dynamic_update_slice_in_dim(c["v"], v[:, None], slot, 1)
    logits = jnp.einsum("bhd,bwd->bhw", q, ks) * HD ** -0.5
    logits = jnp.where(jnp.arange(WINDOW) <= pos, logits, -1e30)
    o = jnp.einsum("bhw,bwd->bhd", jax.nn.softmax(logits, -1), vs)
    return o.reshape(B, DIM) @ p["out"], {"k": ks, "v": vs}


def mlp(p, x):
    a, b = jnp.split(x @ p["up"], 2, -1)
    return (jax.nn.silu(a) * b) @ p["down"]


def forward(params, cache, tok, pos):
    x = params["emb"][tok] * jnp.sqrt(DIM * 1.0)
    new = []
    for kind, p, c in zip(PATTERN, params["layers"], cache):
        y = rms(x, p["norm1"])
        y, c = recurrent(p, c, y) if kind == "rec" else attention(p, c, y, pos)
        x = x + y
        x = x + mlp(p, rms(x, p["norm2"]))
        new.append(c)
    logits = rms(x, params["norm"]) @ params["emb"].T
    return 30.0 * jnp.tanh(logits / 30.0), new


def sample(key, logits, temperature, top_p):
    logits = logits / temperature
    srt = -jnp.sort(-logits, axis=-1)
    probs = jax.nn.softmax(srt, -1)
    cum = jnp.cumsum(probs, -1)
    keep = (cum - probs) < top_p
    cutoff = jnp.min(jnp.where(keep, srt, jnp.inf), -1, keepdims=True)
    logits = jnp.where(logits < cutoff, -jnp.inf, logits)
    tok = jax.random.categorical(key, logits)
    return tok, jax.nn.log_softmax(logits)[jnp.arange(B), tok]


@jax.jit
def decode_step(params, cache, tok, pos, key, temperature, top_p):
    logits, cache = forward(params, cache, tok, pos)
    key, sub = jax.random.split(key)
    tok, logp = sample(sub, logits, temperature, top_p)
    return tok, logp, cache, pos + 1, key


def main(path):
    params = init(jax.random.PRNGKey(0))
    state = (jnp.array([1, 2, 3]), jnp.int32(0), jax.random.PRNGKey(9))
    cache = empty_cache()
    tok, pos, key = state
    with open(path, "w") as f:
        low = decode_step.lower(params, cache, tok, pos, key, 0.9, 0.8)
        f.write(low.compiler_ir("hlo").as_hlo_module().to_string())
    for _ in range(8):
        tok, logp, cache, pos, key = decode_step(params, cache, tok, pos, key, 0.9, 0.8)
        print(tok.tolist(), [round(v, 4) for v in logp.tolist()])


if __name__ == "__main__":
    main(sys.argv[1])
