"""Exponential smoothing with learned, weather-dependent gains for bike rental counts."""
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax

PERIOD = 7


@dataclass(frozen=True)
class Shape:
    stations: int = 12
    covariates: int = 5
    units: int = 16


SHAPE = Shape()
NAMES = ("b1", "b2", "log_sigma", "season0", "w1", "w2")     # checkpoint order


def make_parameters(rng_key, shape=SHAPE):
    first, second = jax.random.split(rng_key)
    gain_net = {
        "w1": 0.3 * jax.random.normal(first, (shape.covariates, shape.units)),
        "w2": 0.3 * jax.random.normal(second, (shape.units, 4)),
        "b1": jnp.zeros(shape.units),
        "b2": jnp.array([-1.0, -2.0, -1.5, 2.0]),
    }
    return {
        "noise": {"log_sigma": jnp.zeros(shape.stations)},
        "gains": gain_net,
        "cycle": {"season0": jnp.zeros((shape.stations, PERIOD))},
    }


def smooth_one_day(state, today):
    level, slope, cycle = state["level"], state["slope"], state["cycle"]
    carried_on = today["damping"] * slope
    of_today = cycle[:, 0]
    expected = level + carried_on + of_today
    surprise = today["count"] - expected
    nxt = {
        "level": level + carried_on + today["k_level"] * surprise,
        "slope": carried_on + today["k_slope"] * surprise,
    }
    seen = (of_today + today["k_cycle"] * surprise)[:, None]
    nxt["cycle"] = jnp.concatenate([cycle[:, 1:], seen], axis=1)
    return nxt, {"expected": expected, "miss": jnp.abs(surprise)}


def run_filter(par, counts, covariates):
    gains = par["gains"]
    hidden = jnp.tanh(covariates @ gains["w1"] + gains["b1"])
    squashed = jax.nn.sigmoid(hidden @ gains["w2"] + gains["b2"])
    days = {"count": counts}
    for column, name in enumerate(("k_level", "k_slope", "k_cycle", "damping")):
        days[name] = squashed[..., column:column + 1]
    initial = {
        "cycle": par["cycle"]["season0"],
        "level": counts[0],
        "slope": jnp.zeros(counts.shape[1]),
    }
    return lax.scan(smooth_one_day, initial, days)


def penalised_nll(par, counts, covariates):
    final, daily = run_filter(par, counts, covariates)
    ridge = jnp.mean(jnp.square(par["cycle"]["season0"]))
    mean_miss = jnp.mean(daily["miss"])
    log_sigma = par["noise"]["log_sigma"]
    scale = jnp.exp(log_sigma)
    scaled = (counts - daily["expected"]) / scale
    fit = jnp.mean(0.5 * scaled * scaled + log_sigma)
    return fit + 0.01 * ridge, (final, mean_miss)


def in_checkpoint_order(tree):
    flat = {name: leaf for group in tree.values() for name, leaf in group.items()}
    return {name: flat[name] for name in NAMES}


@jax.jit
def fit_step(covariates, counts, optimizer, par):
    steps = optimizer["steps"] + 1
    as_float = steps.astype(jnp.float32)
    rate = 0.01 * jnp.sqrt(1.0 - 0.999 ** as_float) / (1.0 - 0.9 ** as_float)
    (loss, (final, mae)), grads = jax.value_and_grad(penalised_nll, has_aux=True)(
        par, counts, covariates)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * jnp.square(g), optimizer["second"], grads)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, optimizer["first"], grads)
    par = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), par, first, second)
    mean_slope, mean_level = final["slope"].mean(), final["level"].mean()
    return (in_checkpoint_order(par), in_checkpoint_order(first), in_checkpoint_order(second),
            steps, loss, mae, mean_level, mean_slope)


def synthetic_month(rng_key, days=28, shape=SHAPE):
    first, second, third = jax.random.split(rng_key, 3)
    covariates = jax.random.normal(first, (days, shape.covariates))
    usual = 2.0 + jax.random.uniform(second, (shape.stations,))
    weekly = jnp.sin(2 * jnp.pi * jnp.arange(days) / PERIOD)[:, None]
    noise = 0.2 * jax.random.normal(third, (days, shape.stations))
    return covariates, usual + 0.5 * weekly + 0.3 * covariates[:, :1] + noise


def regroup(flat):
    return {
        "noise": {"log_sigma": flat["log_sigma"]},
        "gains": {name: flat[name] for name in ("w1", "w2", "b1", "b2")},
        "cycle": {"season0": flat["season0"]},
    }


def setup(seed=5):
    rng_key = jax.random.PRNGKey(seed)
    par = make_parameters(rng_key)
    zeros = jax.tree.map(jnp.zeros_like, par)
    optimizer = {"steps": jnp.zeros((), jnp.int32), "first": zeros, "second": zeros}
    return par, optimizer, rng_key


def main(iterations=30):
    par, optimizer, rng_key = setup()
    for i in range(iterations):
        covariates, counts = synthetic_month(jax.random.fold_in(rng_key, i))
        par, first, second, steps, loss, mae, *_ = fit_step(covariates, counts, optimizer, par)
        par = regroup(par)
        optimizer = {"steps": steps, "first": regroup(first), "second": regroup(second)}
        if i % 10 == 0:
            print(f"{i:3d} nll {loss:.4f} mae {mae:.4f}")


if __name__ == "__main__":
    main()
