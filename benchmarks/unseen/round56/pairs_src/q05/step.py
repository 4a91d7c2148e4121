"""Decoder LM in plain JAX + optax with an averaged copy of the weights for evaluation."""
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

CFG = dict(vocab=64, dim=32, heads=4, layers=2, ffn=64, seq=24, batch=4)


class TrainState(NamedTuple):
    step: Any
    params: Any
    ema: Any
    opt_state: Any


def init_params(rng, c, dtype=jnp.bfloat16):
    def mat(*shape):
        return jnp.asarray(rng.normal(0, shape[0] ** -0.5, shape), dtype)

    d = c["dim"]
    blocks = [
        dict(ln1=jnp.ones(d, dtype), wqkv=mat(d, 3 * d), wo=mat(d, d), ln2=jnp.ones(d, dtype), wi=mat(d, 2 * c["ffn"]), wd=mat(c["ffn"], d))
        for _ in range(c["layers"])
    ]
    return dict(embed=mat(c["vocab"], d), blocks=blocks, lnf=jnp.ones(d, dtype), head=mat(d, c["vocab"]))


def rms(x, g):
    x32 = x.astype(jnp.float32)
    return (x32 * jax.lax.rsqrt(jnp.mean(x32 * x32, -1, keepdims=True) + 1e-6)).astype(x.dtype) * g


def rope(x):
    t, d = x.shape[1], x.shape[-1]
    freqs = 1.0 / (10000 ** (np.arange(0, d, 2) / d))
    ang = np.outer(np.arange(t), freqs)
    cos = jnp.asarray(np.cos(ang)[None, :, None], x.dtype)
    sin = jnp.asarray(np.sin(ang)[None, :, None], x.dtype)
    a, b = x[..., ::2], x[..., 1::2]
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def block(p, x, heads):
    b, t, d = x.shape
    q, k, v = jnp.split((rms(x, p["ln1"]) @ p["wqkv"]).reshape(b, t, heads, -1), 3, axis=-1)
    att = jnp.einsum("bqhd,bkhd->bhqk", rope(q), rope(k)).astype(jnp.float32) * (d // heads) ** -0.5
    att = jnp.where(jnp.tril(jnp.ones((t, t), bool)), att, -1e9)
    att = jax.nn.softmax(att, -1).astype(x.dtype)
    x = x + jnp.einsum("bhqk,bkhd->bqhd", att, v).reshape(b, t, d) @ p["wo"]
    g, u = jnp.split(rms(x, p["ln2"]) @ p["wi"], 2, axis=-1)
    return x + (jax.nn.silu(g) * u) @ p["wd"]


def loss_fn(params, tokens):
    x = params["embed"][tokens[:, :-1]]
    for p in params["blocks"]:
        x = block(p, x, CFG["heads"])
    logits = (rms(x, params["lnf"]) @ params["head"]).astype(jnp.float32)
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


tx = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1, momentum=0.9))


def ema_decay(step):
    step = step.astype(jnp.float32)
    return jnp.minimum(0.999, (1.0 + step) / (10.0 + step))


@jax.jit
def train_step(state, tokens):
    loss, grads = jax.value_and_grad(loss_fn)(state.params, tokens)
    updates, opt_state = tx.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    d = ema_decay(state.step)
    ema = jax.tree.map(lambda e, p: d * e + (1.0 - d) * p, state.ema, params)
    return TrainState(state.step + 1, params, ema, opt_state), loss


def main(dump=None):
    rng = np.random.default_rng(0)
    params = init_params(rng, CFG)
    state = TrainState(jnp.zeros((), jnp.int32), params, jax.tree.map(jnp.copy, params), tx.init(params))
    for i in range(5):
        tokens = jnp.asarray(rng.integers(0, CFG["vocab"], (CFG["batch"], CFG["seq"] + 1)), jnp.int32)
        if dump:
            dump(i, train_step.lower(state, tokens))
        state, loss = train_step(state, tokens)
        print(i, float(loss), train_step._cache_size())


if __name__ == "__main__":
    main()
