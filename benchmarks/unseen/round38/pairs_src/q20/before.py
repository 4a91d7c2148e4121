"""RWKV language model, one decoding step with recurrent state and nucleus sampling."""
import sys

import jax
import jax.numpy as jnp

VOCAB, DIM, FFN, DEPTH = 24, 8, 16, 3


def init(key):
    ks = iter(jax.random.split(key, 100))
    mat = lambda i, o: jax.random.normal(next(ks), (i, o)) / i ** 0.5
    vec = lambda: jax.random.uniform(next(ks), (DIM,))
    ln = lambda: {"g": jnp.ones(DIM), "b": jnp.zeros(DIM)}
    blocks = []
    for _ in range(DEPTH):
        blocks.append({
            "ln1": ln(), "ln2": ln(),
            "att": {"mk": vec(), "mv": vec(), "mr": vec(), "decay": vec() - 1.0, "bonus": vec(),
                    "k": mat(DIM, DIM), "v": mat(DIM, DIM), "r": mat(DIM, DIM), "o": mat(DIM, DIM)},
            "ffn": {"mk": vec(), "mr": vec(), "k": mat(DIM, FFN), "r": mat(DIM, DIM), "v": mat(FFN, DIM)},
        })
    return {"emb": mat(VOCAB, DIM), "ln0": ln(), "blocks": blocks, "lnf": ln(), "head": mat(DIM, VOCAB)}


def init_state(batch):
    z = lambda: jnp.zeros((batch, DIM))
    return [{"att_x": z(), "ffn_x": z(), "num": z(), "den": z(), "max": z() - 1e30} for _ in range(DEPTH)]


def layer_norm(x, p, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = jnp.square(x - mu).mean(-1, keepdims=True)
    return (x - mu) * jax.lax.rsqrt(var + eps) * p["g"] + p["b"]


def lerp(x, last, mix):
    return x * mix + last * (1.0 - mix)


def time_mix(p, x, s):
    k = lerp(x, s["att_x"], p["mk"]) @ p["k"]
    v = lerp(x, s["att_x"], p["mv"]) @ p["v"]
    r = jax.nn.sigmoid(lerp(x, s["att_x"], p["mr"]) @ p["r"])

    top = jnp.maximum(s["max"], p["bonus"] + k)
    e1, e2 = jnp.exp(s["max"] - top), jnp.exp(p["bonus"] + k - top)
    wkv = (e1 * s["num"] + e2 * v) / (e1 * s["den"] + e2)

    w = -jnp.exp(p["decay"])
    new_max = jnp.maximum(s["max"] + w, k)
    e1, e2 = jnp.exp(s["max"] + w - new_max), jnp.exp(k - new_max)
    new = {"att_x": x, "num": e1 * s["num"] + e2 * v, "den": e1 * s["den"] + e2, "max": new_max}
    return (r * wkv) @ p["o"], new


def channel_mix(p, x, s):
    k = jnp.square(jax.nn.relu(lerp(x, s["ffn_x"], p["mk"]) @ p["k"]))
    r = jax.nn.sigmoid(lerp(x, s["ffn_x"], p["mr"]) @ p["r"])
    return r * (k @ p["v"]), {"ffn_x": x}


def forward(params, token, state):
    x = layer_norm(params["emb"][token], params["ln0"])
    new_state = []
    for blk, s in zip(params["blocks"], state):
        dx, att = time_mix(blk["att"], layer_norm(x, blk["ln1"]), s)
        x = x + dx
        dx, ffn = channel_mix(blk["ffn"], layer_norm(x, blk["ln2"]), s)
        x = x + dx
        new_state.append({**att, **ffn})
    return layer_norm(x, params["lnf"]) @ params["head"], new_state


def sample_top_p(key, logits, top_p=0.85, temperature=0.9):
    order = jnp.argsort(-logits, axis=-1)
    sorted_logits = jnp.take_along_axis(logits, order, axis=-1)
    probs = jax.nn.softmax(sorted_logits, axis=-1)
    keep = jnp.cumsum(probs, axis=-1) - probs < top_p
    pick = jax.random.categorical(key, jnp.where(keep, sorted_logits / temperature, -jnp.inf))
    return jnp.take_along_axis(order, pick[:, None], axis=-1)[:, 0]


def decode_step(params, state, token, key):
    key, sub = jax.random.split(key)
    logits, state = forward(params, token, state)
    return sample_top_p(sub, logits), state, key


def main(out):
    params = init(jax.random.PRNGKey(0))
    state = init_state(2)
    token, key = jnp.array([1, 5]), jax.random.PRNGKey(7)
    step = jax.jit(decode_step)
    with open(out, "w") as f:
        f.write(step.lower(params, state, token, key).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(8):
        token, state, key = step(params, state, token, key)
        print(i, token.tolist(), float(state[-1]["num"].sum()))


if __name__ == "__main__":
    main(sys.argv[1])
