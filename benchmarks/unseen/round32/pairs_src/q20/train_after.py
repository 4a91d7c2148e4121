"""Sampling from a small decoder over SMILES tokens: one cached decode step per call.

Used for the periodic validity / uniqueness report during training.
"""
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

VOCAB, DIM, HEADS, LAYERS, MAX_LEN, BATCH = 32, 16, 2, 3, 24, 6
BOS, EOS = 1, 2


class Cache(NamedTuple):
    k: jax.Array  # [layer, batch, time, head, dim]
    v: jax.Array


class Sampler(NamedTuple):
    tokens: jax.Array
    pos: jax.Array
    done: jax.Array
    logprob: jax.Array
    cache: Cache
    key: jax.Array


def init_params(key):
    ks = iter(jax.random.split(key, 6 * LAYERS + 3))
    dense = lambda i, o: jax.random.normal(next(ks), (i, o)) / np.sqrt(i)
    layer = lambda: {
        "ln1": jnp.ones(DIM), "ln2": jnp.ones(DIM),
        "qkv": dense(DIM, 3 * DIM), "out": dense(DIM, DIM),
        "up": dense(DIM, 4 * DIM), "down": dense(4 * DIM, DIM),
    }
    return {
        "embed": 0.5 * dense(VOCAB, DIM) * np.sqrt(VOCAB),
        "pos": 0.1 * dense(MAX_LEN, DIM),
        "layers": [layer() for _ in range(LAYERS)],
        "ln": jnp.ones(DIM),
        "head": dense(DIM, VOCAB),
    }


def norm(x, g):
    x = x - x.mean(-1, keepdims=True)
    return g * x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5)


def decode(params, token, pos, cache):
    x = params["embed"][token] + params["pos"][pos]
    visible = jnp.arange(MAX_LEN) <= pos
    ks, vs = [], []
    for n, p in enumerate(params["layers"]):
        q, k, v = jnp.split(norm(x, p["ln1"]) @ p["qkv"], 3, axis=-1)
        heads = lambda a: a.reshape(BATCH, HEADS, DIM // HEADS)
        kc = jax.lax.dynamic_update_index_in_dim(cache.k[n], heads(k), pos, 1)
        vc = jax.lax.dynamic_update_index_in_dim(cache.v[n], heads(v), pos, 1)
        att = jnp.einsum("bhd,bthd->bht", heads(q), kc) / np.sqrt(DIM // HEADS)
        att = jax.nn.softmax(jnp.where(visible, att, -1e9), axis=-1)
        y = jnp.einsum("bht,bthd->bhd", att, vc).reshape(BATCH, DIM)
        x = x + y @ p["out"]
        x = x + jax.nn.gelu(norm(x, p["ln2"]) @ p["up"]) @ p["down"]
        ks.append(kc)
        vs.append(vc)
    return norm(x, params["ln"]) @ params["head"], Cache(jnp.stack(ks), jnp.stack(vs))


def nucleus(logits, top_p):
    """Keep the smallest set of tokens whose mass reaches top_p."""
    order = jnp.argsort(-logits, axis=-1)
    ranked = jnp.take_along_axis(logits, order, axis=-1)
    probs = jax.nn.softmax(ranked, axis=-1)
    mass = jnp.cumsum(probs, axis=-1)
    ranked = jnp.where((mass < top_p).at[:, 0].set(True), ranked, -jnp.inf)
    back = jnp.argsort(order, axis=-1)
    return jnp.take_along_axis(ranked, back, axis=-1)


@jax.jit
def sample_step(params, s: Sampler, temperature, top_p):
    current = jax.lax.dynamic_index_in_dim(s.tokens, s.pos, 1, keepdims=False)
    logits, cache = decode(params, current, s.pos, s.cache)
    logits = logits.at[:, BOS].set(-jnp.inf)
    logp = jax.nn.log_softmax(logits / temperature)
    key, sub = jax.random.split(s.key)
    nxt = jax.random.categorical(sub, nucleus(logp, top_p))
    nxt = jnp.where(s.done, 0, nxt)
    gained = jnp.take_along_axis(logp, nxt[:, None], axis=1)[:, 0]
    return Sampler(
        tokens=jax.lax.dynamic_update_index_in_dim(s.tokens, nxt, s.pos + 1, 1),
        pos=s.pos + 1,
        done=s.done | (nxt == EOS),
        logprob=s.logprob + jnp.where(s.done, 0.0, gained),
        cache=cache,
        key=key,
    )


def start(seed):
    empty = jnp.zeros((LAYERS, BATCH, MAX_LEN, HEADS, DIM // HEADS))
    tokens = jnp.zeros((BATCH, MAX_LEN), jnp.int32).at[:, 0].set(BOS)
    return Sampler(tokens, jnp.int32(0), jnp.zeros(BATCH, bool), jnp.zeros(BATCH), Cache(empty, empty),
                   jax.random.PRNGKey(seed))


def main():
    params = init_params(jax.random.PRNGKey(0))
    s = start(12)
    for _ in range(MAX_LEN - 1):
        s = sample_step(params, s, jnp.float32(0.9), jnp.float32(0.85))
    print(np.asarray(s.tokens))
    print(np.asarray(s.logprob))


if __name__ == "__main__":
    main()
