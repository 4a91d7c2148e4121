"""Quantile forecasts of river flow with a dilated causal convolution network."""
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax.training import train_state

CONTEXT, AHEAD, FEATURES, CH, BATCH = 40, 6, 3, 16, 8
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
PEAK, FLOOR, WARMUP, TOTAL = 2e-3, 1e-5, 500, 12000


class GatedBlock(nn.Module):
    dilation: int

    @nn.compact
    def __call__(self, x, train):
        pad = [(2 * self.dilation, 0)]
        conv = lambda: nn.Conv(CH, (3,), kernel_dilation=(self.dilation,), padding=pad)
        h = jnp.tanh(conv()(x)) * nn.sigmoid(conv()(x))
        h = nn.Dropout(0.1, deterministic=not train)(h)
        return x + nn.Dense(CH)(h), nn.Dense(CH)(h)


class Forecaster(nn.Module):
    @nn.compact
    def __call__(self, past, train):
        level = past[..., :1].mean(axis=1, keepdims=True)
        spread = past[..., :1].std(axis=1, keepdims=True) + 1e-3
        x = jnp.concatenate([(past[..., :1] - level) / spread, past[..., 1:]], -1)
        x = nn.Dense(CH)(x)
        skip = 0.0
        for d in (1, 2, 4, 8):
            x, s = GatedBlock(d)(x, train)
            skip = skip + s
        h = nn.relu(nn.LayerNorm()(skip))[:, -1]
        h = nn.relu(nn.Dense(2 * CH)(h))
        out = nn.Dense(AHEAD * len(QUANTILES))(h).reshape(-1, AHEAD, len(QUANTILES))
        first, rest = out[..., :1], nn.softplus(out[..., 1:])
        out = jnp.cumsum(jnp.concatenate([first, rest], -1), -1)
        return out * spread + level


def pinball(pred, target):
    q = jnp.asarray(QUANTILES)
    err = target[..., None] - pred
    return jnp.mean(jnp.maximum(q * err, (q - 1.0) * err))


def learning_rate():
    return optax.join_schedules(
        [optax.linear_schedule(0.0, PEAK, WARMUP),
         optax.cosine_decay_schedule(PEAK, TOTAL, alpha=FLOOR / PEAK)],
        boundaries=[WARMUP])


def make_state(key, past):
    net = Forecaster()
    params = net.init(key, past, False)["params"]
    schedule = learning_rate()
    tx = optax.chain(optax.clip_by_global_norm(1.0),
                     optax.adamw(schedule, b2=0.99, weight_decay=1e-3))
    return train_state.TrainState.create(apply_fn=net.apply, params=params, tx=tx), schedule


def make_step(schedule):
    def step(state, past, future, key):
        key = jax.random.fold_in(key, state.step)

        def loss_fn(params):
            pred = state.apply_fn({"params": params}, past, True, rngs={"dropout": key})
            cover = jnp.mean((future >= pred[..., 0]) & (future <= pred[..., -1]))
            return pinball(pred, future), cover

        (loss, cover), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
        logs = {"loss": loss, "coverage": cover, "lr": schedule(state.step), "grad_norm": optax.global_norm(grads)}
        return state.apply_gradients(grads=grads), logs

    return jax.jit(step)


def windows(seed=0):
    rng = np.random.default_rng(seed)
    n = 4000
    rain = rng.gamma(0.3, 2.0, n)
    flow = np.zeros(n)
    for t in range(1, n):
        flow[t] = 0.93 * flow[t - 1] + 0.2 * rain[t]
    season = np.sin(2 * np.pi * np.arange(n) / 365)
    series = np.stack([np.log1p(flow), np.log1p(rain), season], -1).astype(np.float32)
    while True:
        at = rng.integers(0, n - CONTEXT - AHEAD, BATCH)
        cut = np.stack([series[a:a + CONTEXT + AHEAD] for a in at])
        yield cut[:, :CONTEXT], cut[:, CONTEXT:, 0]


def main(dump=None, steps=6):
    key = jax.random.PRNGKey(0)
    data = windows()
    state, schedule = make_state(key, next(data)[0])
    step = make_step(schedule)
    for i, (past, future) in zip(range(steps), data):
        if i == 0 and dump:
            with open(dump, "w") as f:
                f.write(step.lower(state, past, future, key).as_text(dialect="hlo"))
        state, logs = step(state, past, future, key)
        print(i, {k: round(float(v), 7) for k, v in logs.items()})
    print("lr at", {s: round(float(schedule(s)), 7) for s in (250, 500, 6000, 11500, 12000, 12500)})


if __name__ == "__main__":
    main(*sys.argv[1:2])
