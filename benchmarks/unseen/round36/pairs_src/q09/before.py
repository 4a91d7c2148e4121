"""Codon sampler: recurrent WKV language model over codons, one decoding step for a batch of genes."""
import argparse
from typing import NamedTuple

import jax
import jax.numpy as jnp

VOCAB, WIDTH, LAYERS = 66, 16, 2
STOPS = (48, 50, 56)


class State(NamedTuple):
    shift_t: jax.Array
    shift_c: jax.Array
    num: jax.Array
    den: jax.Array
    top: jax.Array
    length: jax.Array


def init_params(key):
    keys = iter(jax.random.split(key, 64))

    def mat(a, b, s=1.0):
        return s * jax.random.normal(next(keys), (a, b)) / a ** 0.5

    def layer():
        d = WIDTH
        return {
            "ln_t": jnp.ones(d), "ln_c": jnp.ones(d),
            "mix_k": jnp.full(d, 0.5), "mix_v": jnp.full(d, 0.4), "mix_r": jnp.full(d, 0.6),
            "decay": jnp.linspace(-3.0, 1.0, d), "bonus": jnp.full(d, 0.3),
            "wk": mat(d, d), "wv": mat(d, d), "wr": mat(d, d), "wo": mat(d, d, 0.5),
            "cmix": jnp.full(d, 0.5), "ck": mat(d, 2 * d), "cv": mat(2 * d, d, 0.5),
            "cr": mat(d, d),
        }

    return {"emb": mat(VOCAB, WIDTH, 4.0), "layers": [layer() for _ in range(LAYERS)],
            "ln_out": jnp.ones(WIDTH), "head": mat(WIDTH, VOCAB, 3.0)}


def rms(x, gain):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * gain


def time_mix(p, x, last, num, den, top):
    xk = x * p["mix_k"] + last * (1 - p["mix_k"])
    xv = x * p["mix_v"] + last * (1 - p["mix_v"])
    xr = x * p["mix_r"] + last * (1 - p["mix_r"])
    k, v, r = xk @ p["wk"], xv @ p["wv"], jax.nn.sigmoid(xr @ p["wr"])

    q = jnp.maximum(top, p["bonus"] + k)
    e1, e2 = jnp.exp(top - q), jnp.exp(p["bonus"] + k - q)
    wkv = (e1 * num + e2 * v) / (e1 * den + e2)

    w = top - jnp.exp(p["decay"])
    q = jnp.maximum(w, k)
    e1, e2 = jnp.exp(w - q), jnp.exp(k - q)
    return (r * wkv) @ p["wo"], e1 * num + e2 * v, e1 * den + e2, q


def channel_mix(p, x, last):
    xm = x * p["cmix"] + last * (1 - p["cmix"])
    k = jnp.square(jax.nn.relu(xm @ p["ck"]))
    return jax.nn.sigmoid(xm @ p["cr"]) * (k @ p["cv"])


def forward(params, state, codon):
    x = params["emb"][codon]
    rows = []
    for i, p in enumerate(params["layers"]):
        h = rms(x, p["ln_t"])
        y, num, den, top = time_mix(p, h, state.shift_t[i], state.num[i],
                                    state.den[i], state.top[i])
        x = x + y
        g = rms(x, p["ln_c"])
        x = x + channel_mix(p, g, state.shift_c[i])
        rows.append((h, g, num, den, top))
    stacked = [jnp.stack(r) for r in zip(*rows)]
    logits = rms(x, params["ln_out"]) @ params["head"]
    return logits, State(*stacked, state.length + 1)


def nucleus(logits, p):
    """Keep the smallest set of codons with probability mass p."""
    order = jnp.argsort(-logits, axis=-1)
    ranked = jnp.take_along_axis(logits, order, axis=-1)
    mass = jnp.cumsum(jax.nn.softmax(ranked, axis=-1), axis=-1)
    drop = jnp.concatenate([jnp.zeros_like(mass[:, :1], bool), mass[:, :-1] > p], axis=-1)
    cutoff = jnp.min(jnp.where(drop, jnp.inf, ranked), axis=-1, keepdims=True)
    return jnp.where(logits < cutoff, -jnp.inf, logits)


def repeat_penalty(logits, usage, strength):
    seen = usage > 0
    scaled = jnp.where(logits > 0, logits / strength, logits * strength)
    return jnp.where(seen, scaled, logits)


@jax.jit
def decode_step(params, state, codon, usage, key, temperature, top_p):
    logits, state = forward(params, state, codon)
    early = (state.length < 10)[:, None]
    stop = jnp.zeros(VOCAB, bool).at[jnp.array(STOPS)].set(True)
    logits = jnp.where(early & stop, -1e9, logits)
    logits = repeat_penalty(logits, usage, 1.1)
    logits = logits / temperature
    logits = nucleus(logits, top_p)
    key, sub = jax.random.split(key)
    nxt = jax.random.categorical(sub, logits, axis=-1)
    logp = jnp.take_along_axis(jax.nn.log_softmax(logits), nxt[:, None], axis=1)[:, 0]
    usage = usage * 0.9 + jax.nn.one_hot(nxt, VOCAB)
    return state, nxt, usage, key, logp


def start(batch):
    z = jnp.zeros((LAYERS, batch, WIDTH))
    return State(z, z, z, z, z - 1e30, jnp.zeros(batch, jnp.int32))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--dump")
    ap.add_argument("--steps", type=int, default=6)
    ap.add_argument("--temperature", type=float, default=0.7)
    ap.add_argument("--top-p", type=float, default=0.9)
    args = ap.parse_args()

    params = init_params(jax.random.PRNGKey(5))
    key = jax.random.PRNGKey(6)
    n = 4
    state, codon, usage = start(n), jnp.full(n, 35, jnp.int32), jnp.zeros((n, VOCAB))
    if args.dump:
        low = decode_step.lower(params, state, codon, usage, key, args.temperature, args.top_p)
        with open(args.dump, "w") as f:
            f.write(low.compiler_ir("hlo").as_hlo_module().to_string())
    for _ in range(args.steps):
        state, codon, usage, key, logp = decode_step(params, state, codon, usage, key,
                                                     args.temperature, args.top_p)
        print(codon.tolist(), [round(v, 3) for v in logp.tolist()])


if __name__ == "__main__":
    main()
