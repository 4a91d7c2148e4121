import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

VOCAB, DIM, OUT = 300, 32, 16


class State(NamedTuple):
    params: Any
    opt: Any
    step: jax.Array


def dense(key, n_in, n_out):
    return {"w": jax.random.normal(key, (n_in, n_out)) / math.sqrt(n_in), "b": jnp.zeros((n_out,))}


def tower_init(key):
    k = jax.random.split(key, 4)
    return {
        "emb": 0.1 * jax.random.normal(k[0], (VOCAB, DIM)),
        "ln": {"scale": jnp.ones((DIM,)), "bias": jnp.zeros((DIM,))},
        "fc1": dense(k[1], DIM, 2 * DIM),
        "fc2": dense(k[2], 2 * DIM, DIM),
        "proj": dense(k[3], DIM, OUT),
    }


def init_params(key):
    kq, kd = jax.random.split(key)
    return {
        "query": tower_init(kq),
        "item": tower_init(kd),
        "log_scale": jnp.asarray(math.log(1 / 0.07)),
    }


def affine(p, x):
    return x @ p["w"].astype(x.dtype) + p["b"].astype(x.dtype)


def layer_norm(p, x):
    y = x.astype(jnp.float32)
    y = (y - y.mean(-1, keepdims=True)) * jax.lax.rsqrt(y.var(-1, keepdims=True) + 1e-6)
    return (y * p["scale"] + p["bias"]).astype(x.dtype)


def tower(p, ids):
    mask = (ids > 0)[..., None].astype(jnp.bfloat16)
    x = p["emb"].astype(jnp.bfloat16)[ids] * mask
    x = x.sum(1) / jnp.maximum(mask.sum(1), 1)
    x = x + affine(p["fc2"], jax.nn.gelu(affine(p["fc1"], layer_norm(p["ln"], x))))
    x = affine(p["proj"], x)
    return x * jax.lax.rsqrt(jnp.sum(x * x, -1, keepdims=True) + 1e-6)


def in_batch_loss(params, batch):
    q = tower(params["query"], batch["query"])
    d = tower(params["item"], batch["item"])
    logits = jnp.exp(params["log_scale"]) * (q @ d.T)
    dup = batch["item_id"][:, None] == batch["item_id"][None, :]
    off = dup & ~jnp.eye(dup.shape[0], dtype=bool)
    logits = jnp.where(off, -jnp.inf, logits)
    logp = jax.nn.log_softmax(logits, axis=-1)
    loss = -jnp.mean(jnp.diagonal(logp) * batch["weight"])
    recall = jnp.mean(jnp.argmax(logits, -1) == jnp.arange(logits.shape[0]))
    return loss, recall


def make_step(tx):
    @jax.jit
    def step(state, batch):
        (loss, recall), grads = jax.value_and_grad(in_batch_loss, has_aux=True)(state.params, batch)
        updates, opt = tx.update(grads, state.opt, state.params)
        params = optax.apply_updates(state.params, updates)
        return State(params, opt, state.step + 1), {"loss": loss, "recall": recall}

    return step


def batches(n, b=16, t=6, seed=0):
    r = np.random.default_rng(seed)
    for _ in range(n):
        yield {
            "query": r.integers(0, VOCAB, (b, t)).astype(np.int32),
            "item": r.integers(0, VOCAB, (b, t)).astype(np.int32),
            "item_id": r.integers(0, 50, (b,)).astype(np.int32),
            "weight": r.uniform(0.5, 1.0, (b,)).astype(np.float32),
        }


def main(on_call=None):
    tx = optax.sgd(optax.cosine_decay_schedule(0.1, 1000), momentum=0.9)
    params = init_params(jax.random.key(0))
    state = State(params, tx.init(params), jnp.zeros((), jnp.int32))
    step = make_step(tx)
    for batch in batches(4):
        if on_call is not None:
            on_call(step, state, batch)
        state, metrics = step(state, batch)
        print(int(state.step), float(metrics["loss"]), step._cache_size())


if __name__ == "__main__":
    main()
