"""Small mixture-of-experts language model in bfloat16 (JAX, optax)."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

CFG = dict(vocab=64, dim=32, heads=2, experts=4, ffn=48, seq=16, batch=4)
COMPUTE = jnp.bfloat16


def init_params(key, cfg):
    ks = jax.random.split(key, 8)
    d, e, f = cfg["dim"], cfg["experts"], cfg["ffn"]

    def w(k, *shape):
        return jax.random.normal(k, shape, jnp.float32) / np.sqrt(shape[-2])

    return {
        "embed": 0.02 * jax.random.normal(ks[0], (cfg["vocab"], d)),
        "pos": 0.02 * jax.random.normal(ks[1], (cfg["seq"], d)),
        "attn": {"norm": jnp.ones(d), "qkv": w(ks[2], d, 3 * d), "out": w(ks[3], d, d)},
        "moe": {"norm": jnp.ones(d), "router": w(ks[4], d, e), "up": w(ks[5], e, d, f), "down": w(ks[6], e, f, d)},
        "final_norm": jnp.ones(d),
    }


def rms_norm(x, scale):
    y = x.astype(jnp.float32)
    y = y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + 1e-6)
    return (y * scale).astype(x.dtype)


def attention(p, x, heads):
    b, t, d = x.shape
    q, k, v = jnp.split(x @ p["qkv"].astype(x.dtype), 3, axis=-1)
    q, k, v = (a.reshape(b, t, heads, d // heads) for a in (q, k, v))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(d // heads).item()
    mask = jnp.tril(jnp.ones((t, t), bool))
    probs = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    out = jnp.einsum("bhqk,bkhd->bqhd", probs, v).reshape(b, t, d)
    return out @ p["out"].astype(x.dtype)


def moe(p, x, temperature):
    logits = x @ p["router"].astype(x.dtype)
    gates = jax.nn.softmax(logits / temperature, axis=-1)
    hidden = jax.nn.silu(jnp.einsum("btd,edf->btef", x, p["up"].astype(x.dtype)))
    out = jnp.einsum("btef,efd->bted", hidden, p["down"].astype(x.dtype))
    load = jnp.mean(gates, axis=(0, 1))
    return jnp.einsum("bted,bte->btd", out, gates), load


def forward(params, tokens, temperature, cfg):
    x = (params["embed"][tokens] + params["pos"]).astype(COMPUTE)
    x = x + attention(params["attn"], rms_norm(x, params["attn"]["norm"]), cfg["heads"])
    h, load = moe(params["moe"], rms_norm(x, params["moe"]["norm"]), temperature)
    x = rms_norm(x + h, params["final_norm"])
    return x @ params["embed"].T.astype(x.dtype), load


def loss_fn(params, tokens, temperature, cfg):
    logits, load = forward(params, tokens[:, :-1], temperature, cfg)
    ce = optax.softmax_cross_entropy_with_integer_labels(logits.astype(jnp.float32), tokens[:, 1:]).mean()
    balance = cfg["experts"] * jnp.sum(load.astype(jnp.float32) ** 2)
    return ce + 0.01 * balance, ce


optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1, momentum=0.9))
anneal = optax.exponential_decay(2.0, transition_steps=1000, decay_rate=0.9, end_value=0.5)


@partial(jax.jit, donate_argnums=0)
def train_step(state, tokens):
    grad_fn = jax.value_and_grad(partial(loss_fn, cfg=CFG), has_aux=True)
    (_, ce), grads = grad_fn(state["params"], tokens, state["temperature"])
    updates, opt_state = optimizer.update(grads, state["opt_state"], state["params"])
    step = state["step"] + 1
    return {
        "params": optax.apply_updates(state["params"], updates),
        "opt_state": opt_state,
        "step": step,
        "temperature": anneal(step),
    }, ce


def create_state(key):
    params = init_params(key, CFG)
    return {"params": params, "opt_state": optimizer.init(params), "step": jnp.zeros((), jnp.int32), "temperature": 2.0}


def main():
    rng = np.random.default_rng(0)
    state = create_state(jax.random.key(0))
    for i in range(6):
        tokens = jnp.asarray(rng.integers(0, CFG["vocab"], (CFG["batch"], CFG["seq"] + 1)), jnp.int32)
        state, ce = train_step(state, tokens)
        if i % 5 == 0:
            print(i, float(ce), float(state["temperature"]))
    print("compiled", train_step._cache_size())


if __name__ == "__main__":
    main()
