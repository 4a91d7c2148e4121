"""Gated linear recurrence (RG-LRU style) classifier for single-lead ECG windows."""
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

DIM, DEPTH, N_CLASSES, T = 16, 1, 5, 32
PARAM_DTYPE = jnp.bfloat16


class State(NamedTuple):
    step: jax.Array
    params: Any
    ema: Any
    opt_state: Any


def dense_init(key, n_in, n_out):
    w = jax.random.normal(key, (n_in, n_out)) * n_in ** -0.5
    return {"w": w.astype(PARAM_DTYPE), "b": jnp.zeros((n_out,), PARAM_DTYPE)}


def init_params(key):
    keys = iter(jax.random.split(key, 3 + 6 * DEPTH))
    params = {"stem": dense_init(next(keys), 4, DIM), "head": dense_init(next(keys), DIM, N_CLASSES)}
    for i in range(DEPTH):
        lam = jax.random.uniform(next(keys), (DIM,), minval=0.9, maxval=0.999)
        params[f"block_{i}"] = {
            "gate_r": dense_init(next(keys), DIM, DIM),
            "gate_i": dense_init(next(keys), DIM, DIM),
            "lam": jnp.log(lam / (1 - lam)).astype(PARAM_DTYPE),
            "out": dense_init(next(keys), DIM, DIM),
            "scale": jnp.ones((DIM,), PARAM_DTYPE),
        }
    return params


def dense(p, x):
    return x @ p["w"] + p["b"]


def rms_norm(x, scale):
    var = jnp.mean(jnp.square(x.astype(jnp.float32)), axis=-1, keepdims=True)
    return (x * jax.lax.rsqrt(var + 1e-6)).astype(x.dtype) * scale


def rg_lru(p, x, c=8.0):
    r = jax.nn.sigmoid(dense(p["gate_r"], x)).astype(jnp.float32)
    i = jax.nn.sigmoid(dense(p["gate_i"], x)).astype(jnp.float32)
    log_a = -c * r * jax.nn.softplus(-p["lam"].astype(jnp.float32))
    a = jnp.exp(log_a)
    u = jnp.sqrt(-jnp.expm1(2 * log_a) + 1e-6) * (i * x.astype(jnp.float32))

    def combine(left, right):
        a_l, u_l = left
        a_r, u_r = right
        return a_l * a_r, a_r * u_l + u_r

    _, h = jax.lax.associative_scan(combine, (a, u), axis=1)
    return h.astype(x.dtype)


def apply(params, x):
    x = x.reshape(x.shape[0], T // 4, 4).astype(PARAM_DTYPE)
    h = dense(params["stem"], x)
    for i in range(DEPTH):
        p = params[f"block_{i}"]
        y = rg_lru(p, rms_norm(h, p["scale"]))
        h = h + dense(p["out"], jax.nn.gelu(y))
    return dense(params["head"], h.mean(axis=1)).astype(jnp.float32)


schedule = optax.warmup_cosine_decay_schedule(1e-5, 2e-3, 20, 200)
tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, b2=0.98, weight_decay=0.02))


def ema_decay(step, target=0.999):
    return jnp.minimum(target, (1 + step) / (10 + step))


@partial(jax.jit, donate_argnums=0)
def train_step(state, batch):
    def loss_fn(params):
        logits = apply(params, batch["ecg"])
        loss = optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"])
        return loss.mean(), logits

    (loss, logits), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    updates, opt_state = tx.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    d = ema_decay(state.step)
    ema = jax.tree.map(lambda e, p: d * e + (1 - d) * p, state.ema, params)
    acc = jnp.mean(jnp.argmax(logits, -1) == batch["label"])
    return State(state.step + 1, params, ema, opt_state), {"loss": loss, "acc": acc}


def windows(n, batch, seed=0):
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, T)
    for _ in range(n):
        y = rng.integers(0, N_CLASSES, batch)
        x = np.sin(2 * np.pi * (3 + y[:, None]) * t) ** 9 + 0.1 * rng.normal(size=(batch, T))
        yield {"ecg": x.astype(np.float32), "label": y.astype(np.int32)}


def main():
    params = init_params(jax.random.key(0))
    state = State(jnp.zeros((), jnp.int32), params, jax.tree.map(jnp.copy, params), tx.init(params))
    for i, batch in enumerate(windows(6, 16)):
        state, metrics = train_step(state, batch)
        print(i, {k: round(float(v), 4) for k, v in metrics.items()})


if __name__ == "__main__":
    main()
