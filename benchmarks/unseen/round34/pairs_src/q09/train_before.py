"""Masked-residue protein language model, data parallel with shard_map over the 'data' axis."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, PartitionSpec as P

VOCAB, LEN, D, HEADS, MASK, PAD = 24, 20, 16, 2, 23, 0


def init(key):
    ks = iter(jax.random.split(key, 16))
    n = lambda *s: jax.random.normal(next(ks), s) * s[0] ** -0.5
    return {
        "emb": n(VOCAB, D), "pos": n(LEN, D),
        "qkv": n(D, 3, HEADS, D // HEADS), "o": n(HEADS, D // HEADS, D),
        "ln1": jnp.ones(D), "ln2": jnp.ones(D), "lnf": jnp.ones(D),
        "w1": n(D, 4 * D), "b1": jnp.zeros(4 * D), "w2": n(4 * D, D), "b2": jnp.zeros(D),
        "bias": jnp.zeros(VOCAB),
    }


def rms(x, g):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * g


def encode(p, tok):
    keep = tok != PAD
    x = p["emb"][tok] + p["pos"]
    q, k, v = jnp.moveaxis(jnp.einsum("bld,dshc->bslhc", rms(x, p["ln1"]), p["qkv"]), 1, 0)
    s = jnp.einsum("blhc,bmhc->bhlm", q, k) / np.sqrt(D // HEADS)
    s = jnp.where(keep[:, None, None, :], s, -1e9)
    x = x + jnp.einsum("bhlm,bmhc,hcd->bld", jax.nn.softmax(s, -1), v, p["o"])
    h = jax.nn.gelu(rms(x, p["ln2"]) @ p["w1"] + p["b1"])
    x = x + h @ p["w2"] + p["b2"]
    return rms(x, p["lnf"]) @ p["emb"].T + p["bias"]


def masked_nll(p, tok, target, weight):
    logp = jax.nn.log_softmax(encode(p, tok))
    nll = -jnp.take_along_axis(logp, target[..., None], -1)[..., 0]
    return (nll * weight).sum(), weight.sum()


def make_step(mesh, tx):
    @jax.jit
    @partial(jax.shard_map, mesh=mesh, in_specs=(P(), P(), P("data"), P("data"), P("data")),
             out_specs=(P(), P(), P()), check_vma=False)
    def step(params, opt_state, tok, target, weight):
        (total, n), grads = jax.value_and_grad(masked_nll, has_aux=True)(params, tok, target, weight)
        total, n, grads = jax.lax.psum((total, n, grads), "data")
        n = jnp.maximum(n, 1.0)
        grads = jax.tree.map(lambda g: g / n, grads)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, total / n

    return step


def corrupt(rng, tok):
    sel = (rng.rand(*tok.shape) < 0.15) & (tok != PAD)
    noisy = np.where(sel & (rng.rand(*tok.shape) < 0.8), MASK, tok)
    return noisy.astype(np.int32), tok.astype(np.int32), sel.astype(np.float32)


def sequences(rng, n):
    tok = rng.randint(1, MASK, (n, LEN))
    ends = rng.randint(6, LEN + 1, n)
    return np.where(np.arange(LEN)[None] < ends[:, None], tok, PAD)


def main(steps=4, bs=16):
    mesh = Mesh(np.array(jax.devices()), ("data",))
    tx = optax.adamw(optax.warmup_cosine_decay_schedule(0.0, 3e-3, 10, 100), b2=0.98, weight_decay=0.01)
    params = init(jax.random.key(0))
    opt_state = tx.init(params)
    step = make_step(mesh, tx)
    rng = np.random.RandomState(0)
    for s in range(steps):
        params, opt_state, loss = step(params, opt_state, *corrupt(rng, sequences(rng, bs)))
        print(s, float(loss))


if __name__ == "__main__":
    main()
