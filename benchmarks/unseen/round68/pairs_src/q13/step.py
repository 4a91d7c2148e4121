"""Diagonal linear recurrent model for day-ahead grid load, bfloat16 weights."""
import functools
import os
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

WIDTH, STATE, DEPTH, N_IN, T, HORIZON = 16, 12, 2, 5, 32, 8


class TrainState(NamedTuple):
    params: dict
    momentum: dict
    step: jnp.ndarray


def init_layer(key):
    k = jax.random.split(key, 5)
    u = jax.random.uniform(k[0], (STATE,))
    bf = lambda a: a.astype(jnp.bfloat16)
    return {
        "log_nu": jnp.log(-0.5 * jnp.log(u * 0.5 + 0.45)),
        "b_in": bf(jax.random.normal(k[1], (WIDTH, STATE)) / WIDTH ** 0.5),
        "c_out": bf(jax.random.normal(k[2], (STATE, WIDTH)) / STATE ** 0.5),
        "skip": bf(jnp.ones((WIDTH,))),
        "gate_w": bf(jax.random.normal(k[3], (WIDTH, 2 * WIDTH)) / WIDTH ** 0.5),
        "gate_b": bf(jnp.zeros((2 * WIDTH,))),
        "norm": bf(jnp.ones((WIDTH,))),
    }


def init_params(seed):
    keys = jax.random.split(jax.random.key(seed), DEPTH + 2)
    bf = lambda a: a.astype(jnp.bfloat16)
    return {
        "embed": bf(jax.random.normal(keys[0], (N_IN, WIDTH)) / N_IN ** 0.5),
        "layers": [init_layer(k) for k in keys[2:]],
        "readout": bf(jax.random.normal(keys[1], (WIDTH, HORIZON)) / WIDTH ** 0.5),
    }


def rms_norm(x, scale):
    x32 = x.astype(jnp.float32)
    inv = jax.lax.rsqrt(jnp.mean(x32 * x32, -1, keepdims=True) + 1e-6)
    return (x32 * inv).astype(x.dtype) * scale


def recurrence(a, bu):
    def combine(l, r):
        return l[0] * r[0], r[0] * l[1] + r[1]

    a = jnp.broadcast_to(a, bu.shape)
    return jax.lax.associative_scan(combine, (a, bu), axis=1)[1]


def block(p, x):
    y = rms_norm(x, p["norm"])
    lam = jnp.exp(-jnp.exp(p["log_nu"]))
    drive = (y @ p["b_in"]).astype(jnp.float32) * jnp.sqrt(1 - lam ** 2)
    h = recurrence(lam, drive)
    y = h.astype(x.dtype) @ p["c_out"] + y * p["skip"]
    v, g = jnp.split(jax.nn.gelu(y) @ p["gate_w"] + p["gate_b"], 2, axis=-1)
    return x + v * jax.nn.sigmoid(g)


def forward(params, series):
    x = series.astype(jnp.bfloat16) @ params["embed"]
    for p in params["layers"]:
        x = block(p, x)
    return (x[:, -1] @ params["readout"]).astype(jnp.float32)


def pinball(pred, target, q=0.5):
    err = target - pred
    return jnp.mean(jnp.maximum(q * err, (q - 1) * err))


def learning_rate(step, peak=3e-2, warmup=100.0):
    s = step.astype(jnp.float32)
    return peak * jnp.minimum((s + 1) / warmup, jax.lax.rsqrt((s + 1) / warmup))


def nesterov(grads, state, lr, beta=0.9):
    mom = jax.tree.map(lambda m, g: beta * m + g.astype(m.dtype), state.momentum, grads)
    params = jax.tree.map(lambda p, m, g: p - lr * (beta * m + g), state.params, mom, grads)
    return params, mom


@functools.partial(jax.jit, donate_argnums=0)
def train_step(state, series, target):
    def loss_fn(params):
        return pinball(forward(params, series), target)

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    params, mom = nesterov(grads, state, learning_rate(state.step))
    return TrainState(params, mom, state.step + 1), loss


def main(n_steps=5, batch=4):
    params = init_params(0)
    state = TrainState(params, jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.float32), params),
                       jnp.zeros((), jnp.int32))
    rng = np.random.default_rng(0)
    dump = os.environ.get("DUMP_HLO")
    for i in range(n_steps):
        series = rng.normal(size=(batch, T, N_IN)).astype(np.float32)
        target = series[:, -HORIZON:, 0]
        if dump:
            with open(f"{dump}/step{i}.hlo", "w") as f:
                f.write(train_step.lower(state, series, target).compiler_ir("hlo").as_hlo_text())
        state, loss = train_step(state, series, target)
        print(i, float(loss), "cache", train_step._cache_size())


if __name__ == "__main__":
    main()
