"""Demand forecasting for a bike-share system with a damped-trend state-space model.

Level, trend and seasonal states are filtered with lax.scan; a small network
maps weather covariates to smoothing coefficients. Gaussian likelihood, Adam.
"""
import jax
import jax.numpy as jnp
from jax import random

STATIONS, WEATHER, SEASON, HIDDEN = 12, 5, 7, 16


def init(key):
    k1, k2 = random.split(key)
    return {
        "w1": 0.3 * random.normal(k1, (WEATHER, HIDDEN)),
        "b1": jnp.zeros(HIDDEN),
        "w2": 0.3 * random.normal(k2, (HIDDEN, 4)),
        "b2": jnp.array([-1.0, -2.0, -1.5, 2.0]),
        "log_sigma": jnp.zeros(STATIONS),
        "season0": jnp.zeros((STATIONS, SEASON)),
    }


def coefficients(params, weather):
    h = jnp.tanh(weather @ params["w1"] + params["b1"])
    raw = jax.nn.sigmoid(h @ params["w2"] + params["b2"])
    return raw[..., 0:1], raw[..., 1:2], raw[..., 2:3], raw[..., 3:4]


def filter_series(params, demand, weather):
    """demand [T, S], weather [T, W] -> one-step forecasts [T, S]."""
    alpha, beta, gamma, phi = coefficients(params, weather)

    def body(state, inputs):
        level, trend, season = state
        y, a, b, g, p = inputs
        s = season[:, 0]
        drift = p * trend
        forecast = level + drift + s
        error = y - forecast
        new_level = level + drift + a * error
        new_trend = drift + b * error
        rolled = jnp.concatenate([season[:, 1:], (s + g * error)[:, None]], axis=1)
        return (new_level, new_trend, rolled), (forecast, jnp.abs(error))

    start = (demand[0], jnp.zeros(STATIONS), params["season0"])
    (level, trend, _), (forecast, abs_error) = jax.lax.scan(
        body, start, (demand, alpha, beta, gamma, phi))
    return forecast, abs_error, level, trend


def loss_fn(params, demand, weather):
    forecast, abs_error, level, trend = filter_series(params, demand, weather)
    sigma = jnp.exp(params["log_sigma"])
    z = (demand - forecast) / sigma
    nll = jnp.mean(0.5 * z * z + params["log_sigma"])
    smooth = jnp.mean(jnp.square(params["season0"]))
    return nll + 0.01 * smooth, (jnp.mean(abs_error), level, trend)


@jax.jit
def train_step(params, m, v, count, demand, weather):
    (loss, (mae, level, trend)), grads = jax.value_and_grad(loss_fn, has_aux=True)(
        params, demand, weather)
    count = count + 1
    t = count.astype(jnp.float32)
    m = {k: 0.9 * m[k] + 0.1 * grads[k] for k in grads}
    v = {k: 0.999 * v[k] + 0.001 * jnp.square(grads[k]) for k in grads}
    lr = 0.01 * jnp.sqrt(1.0 - 0.999 ** t) / (1.0 - 0.9 ** t)
    params = {k: params[k] - lr * m[k] / (jnp.sqrt(v[k]) + 1e-8) for k in params}
    return params, m, v, count, loss, mae, level.mean(), trend.mean()


def simulate(key, days=28):
    k1, k2, k3 = random.split(key, 3)
    weather = random.normal(k1, (days, WEATHER))
    base = 2.0 + random.uniform(k2, (STATIONS,))
    week = jnp.sin(2 * jnp.pi * jnp.arange(days) / SEASON)[:, None]
    noise = 0.2 * random.normal(k3, (days, STATIONS))
    return base + 0.5 * week + 0.3 * weather[:, :1] + noise, weather


def setup(seed=5):
    key = random.PRNGKey(seed)
    params = init(key)
    zeros = {k: jnp.zeros_like(p) for k, p in params.items()}
    return params, zeros, zeros, jnp.zeros((), jnp.int32), key


def main():
    params, m, v, count, key = setup()
    for i in range(30):
        demand, weather = simulate(random.fold_in(key, i))
        params, m, v, count, loss, mae, *_ = train_step(params, m, v, count, demand, weather)
        if i % 10 == 0:
            print(f"{i:3d} nll {loss:.4f} mae {mae:.4f}")


if __name__ == "__main__":
    main()
