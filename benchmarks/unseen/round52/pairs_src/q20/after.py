"""One decoding step of a small RWKV-like recurrent model of drum patterns:
bfloat16 weights, state carried from token to token, next token by top-p."""
import sys

import jax
import jax.numpy as jnp

VOCAB = 24
DTYPE = jnp.bfloat16


def init(key, width=16, ffn=32, layers=3):
    keys = iter(jax.random.split(key, 12 * layers + 4))

    def mat(n, m):
        return (jax.random.normal(next(keys), (n, m)) * n ** -0.5).astype(DTYPE)

    def vec(n, at=0.0, spread=0.3):
        return at + spread * jax.random.normal(next(keys), (n,))

    params = {"emb": mat(VOCAB, width), "head": mat(width, VOCAB), "layers": []}
    for _ in range(layers):
        params["layers"].append({
            "ln1": jnp.ones(width), "ln2": jnp.ones(width),
            "mix_k": jax.nn.sigmoid(vec(width)).astype(DTYPE),
            "mix_v": jax.nn.sigmoid(vec(width)).astype(DTYPE),
            "mix_r": jax.nn.sigmoid(vec(width)).astype(DTYPE),
            "decay": vec(width, -1.0), "bonus": vec(width),
            "k": mat(width, width), "v": mat(width, width),
            "r": mat(width, width), "o": mat(width, width),
            "mix_c": jax.nn.sigmoid(vec(width)).astype(DTYPE),
            "up": mat(width, ffn), "down": mat(ffn, width),
        })
    return params


def new_state(params, batch):
    width = params["emb"].shape[1]
    return [{"shift_t": jnp.zeros((batch, width), DTYPE),
             "shift_c": jnp.zeros((batch, width), DTYPE),
             "num": jnp.zeros((batch, width)),
             "den": jnp.zeros((batch, width)),
             "top": jnp.full((batch, width), -1e30)}
            for _ in params["layers"]]


def layer_norm(x, scale):
    x = x.astype(jnp.float32)
    x = x - x.mean(-1, keepdims=True)
    y = x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5)
    return (y * scale).astype(DTYPE)


def lerp(x, last, mix):
    return x * mix + last * (1 - mix)


def time_mix(p, x, st):
    k = lerp(x, st["shift_t"], p["mix_k"]) @ p["k"]
    v = lerp(x, st["shift_t"], p["mix_v"]) @ p["v"]
    r = jax.nn.sigmoid(lerp(x, st["shift_t"], p["mix_r"]) @ p["r"])
    k, v = k.astype(jnp.float32), v.astype(jnp.float32)

    top = jnp.maximum(st["top"], p["bonus"] + k)
    old, new = jnp.exp(st["top"] - top), jnp.exp(p["bonus"] + k - top)
    wkv = (old * st["num"] + new * v) / (old * st["den"] + new)

    faded = st["top"] - jnp.exp(p["decay"])
    top = jnp.maximum(faded, k)
    old, new = jnp.exp(faded - top), jnp.exp(k - top)
    state = {"num": old * st["num"] + new * v,
             "den": old * st["den"] + new,
             "top": st["top"], "shift_t": x}
    return (r * wkv.astype(DTYPE)) @ p["o"], state


def channel_mix(p, x, st):
    h = jnp.square(jax.nn.relu(lerp(x, st["shift_c"], p["mix_c"]) @ p["up"]))
    return h @ p["down"], {"shift_c": x}


def top_p(logits, key, p=0.9, temperature=0.8):
    logits = logits.astype(jnp.float32) / temperature
    order = jnp.argsort(-logits, axis=-1)
    ranked = jnp.take_along_axis(logits, order, -1)
    mass = jnp.cumsum(jax.nn.softmax(ranked, -1), -1)
    ranked = jnp.where(mass - jax.nn.softmax(ranked, -1) > p, -jnp.inf, ranked)
    pick = jax.random.categorical(key, ranked, axis=-1)
    return jnp.take_along_axis(order, pick[:, None], -1)[:, 0]


@jax.jit
def decode_step(params, state, token, key):
    x = params["emb"][token]
    states = []
    for p, st in zip(params["layers"], state):
        y, time_state = time_mix(p, layer_norm(x, p["ln1"]), st)
        x = x + y
        y, channel_state = channel_mix(p, layer_norm(x, p["ln2"]), st)
        x = x + y
        states.append({**time_state, **channel_state})
    logits = layer_norm(x, 1.0) @ params["head"]
    return top_p(logits, key), states, logits


def main():
    params = init(jax.random.PRNGKey(0))
    state = new_state(params, 2)
    token = jnp.array([1, 5])
    lowered = decode_step.lower(params, state, token, jax.random.PRNGKey(1))
    with open(sys.argv[1], "w") as f:
        f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(5):
        token, state, logits = decode_step(
            params, state, token, jax.random.PRNGKey(10 + i))
        print(i, token, float(jnp.abs(logits.astype(jnp.float32)).sum()))


if __name__ == "__main__":
    main()
