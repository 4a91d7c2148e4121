"""A sparse mixture-of-experts language model in JAX with mixed precision and an adaptive router temperature."""
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

VOCAB, SEQ, DIM, HIDDEN, EXPERTS, TOP_K = 64, 16, 32, 64, 4, 2
TARGET_ENTROPY = 0.6 * float(np.log(EXPERTS))


class TrainState(NamedTuple):
    params: Any
    opt_state: Any
    router_temp: Any
    step: Any


def init_params(key):
    ks = iter(jax.random.split(key, 16))
    dense = lambda *s: jax.random.normal(next(ks), s) * s[-2] ** -0.5
    return {
        "embed": dense(VOCAB, DIM),
        "pos": dense(SEQ, DIM) * 0.1,
        "attn": {"qkv": dense(DIM, 3 * DIM), "out": dense(DIM, DIM), "norm": jnp.ones(DIM)},
        "moe": {
            "router": dense(DIM, EXPERTS),
            "w_in": dense(EXPERTS, DIM, HIDDEN),
            "w_out": dense(EXPERTS, HIDDEN, DIM),
            "norm": jnp.ones(DIM),
        },
        "norm": jnp.ones(DIM),
    }


def rms_norm(x, scale):
    x32 = x.astype(jnp.float32)
    y = x32 * jax.lax.rsqrt(jnp.mean(jnp.square(x32), axis=-1, keepdims=True) + 1e-6)
    return (y * scale).astype(x.dtype)


def attention(p, x):
    q, k, v = jnp.split(x @ p["qkv"], 3, axis=-1)
    scores = jnp.einsum("btd,bsd->bts", q, k) * DIM**-0.5
    mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores.astype(jnp.float32), -1e9)).astype(x.dtype)
    return jnp.einsum("bts,bsd->btd", weights, v) @ p["out"]


def moe(p, x, temperature):
    logits = (x @ p["router"]) / temperature
    probs = jax.nn.softmax(logits)
    top, idx = jax.lax.top_k(probs, TOP_K)
    top = top / top.sum(-1, keepdims=True)
    gates = (jax.nn.one_hot(idx, EXPERTS, dtype=top.dtype) * top[..., None]).sum(-2)
    h = jax.nn.silu(jnp.einsum("btd,edh->bteh", x, p["w_in"]))
    out = jnp.einsum("bteh,ehd->bted", h, p["w_out"])
    y = jnp.einsum("bted,bte->btd", out, gates)
    load = jax.nn.one_hot(idx, EXPERTS).sum(-2).mean((0, 1)) / TOP_K
    balance = EXPERTS * jnp.sum(load * probs.mean((0, 1)))
    entropy = -jnp.mean(jnp.sum(probs * jnp.log(probs + 1e-6), -1))
    return y.astype(x.dtype), balance, entropy


def forward(params, tokens, temperature):
    p = jax.tree.map(lambda w: w.astype(jnp.bfloat16), params)
    x = p["embed"][tokens] + p["pos"][: tokens.shape[1]]
    x = x + attention(p["attn"], rms_norm(x, p["attn"]["norm"]))
    y, balance, entropy = moe(p["moe"], rms_norm(x, p["moe"]["norm"]), temperature)
    x = rms_norm(x + y, p["norm"])
    return (x @ p["embed"].T).astype(jnp.float32), balance, entropy


tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3, weight_decay=0.01))


def loss_fn(params, batch, temperature):
    logits, balance, entropy = forward(params, batch[:, :-1], temperature)
    ce = optax.softmax_cross_entropy_with_integer_labels(logits, batch[:, 1:]).mean()
    return ce + 0.01 * balance, (ce, entropy)


@jax.jit
def train_step(state, batch):
    grads, (ce, entropy) = jax.grad(loss_fn, has_aux=True)(state.params, batch, state.router_temp)
    updates, opt_state = tx.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    router_temp = jnp.clip(state.router_temp + 0.05 * (TARGET_ENTROPY - entropy), 0.2, 5.0)
    return TrainState(params, opt_state, router_temp, state.step + 1), ce


def create_state(seed):
    params = init_params(jax.random.key(seed))
    return TrainState(params, tx.init(params), router_temp=1.0, step=jnp.zeros((), jnp.int32))


def main():
    rng = np.random.default_rng(0)
    state = create_state(0)
    for i in range(4):
        batch = jnp.asarray(rng.integers(0, VOCAB, (4, SEQ + 1)), jnp.int32)
        state, ce = train_step(state, batch)
        print(i, float(ce), float(state.router_temp))


if __name__ == "__main__":
    main()
