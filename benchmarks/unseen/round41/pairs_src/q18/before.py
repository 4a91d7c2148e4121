"""Kinetics of a bioreactor as a neural ODE: RK4 over the sampling times, per-experiment loss, Adam with clipping."""
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

STATE, FEED, WIDTH, TIMES = 4, 2, 8, 3


def init(key):
    ks = jax.random.split(key, 4)
    n = lambda k, *s: jax.random.normal(k, s) * (1.0 / s[0]) ** 0.5
    return {
        "rate": {"w": n(ks[0], STATE + FEED, WIDTH), "b": jnp.zeros(WIDTH)},
        "yield": {"w": n(ks[1], WIDTH, STATE), "b": jnp.zeros(STATE)},
        "decay": jnp.full((STATE,), -2.0),
        "obs": {"w": n(ks[2], STATE, 3), "log_sigma": jnp.zeros(3)},
    }


def field(params, c, feed):
    """c: (STATE,), feed: (FEED,)"""
    z = jnp.concatenate([jnp.log1p(jnp.abs(c)), feed])
    r = jax.nn.softplus(jnp.dot(z, params["rate"]["w"]) + params["rate"]["b"])
    growth = jnp.dot(r, params["yield"]["w"]) + params["yield"]["b"]
    return growth - jax.nn.softplus(params["decay"]) * c


def rk4(params, c, feed, h):
    k1 = field(params, c, feed)
    k2 = field(params, c + 0.5 * h * k1, feed)
    k3 = field(params, c + 0.5 * h * k2, feed)
    k4 = field(params, c + h * k3, feed)
    return c + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def experiment_nll(params, c0, feed, times, seen):
    """One experiment. seen: (TIMES, 3)"""
    c, total = c0, 0.0
    for i in range(TIMES - 1):
        c = rk4(params, c, feed, times[i + 1] - times[i])
        err = jnp.dot(c, params["obs"]["w"]) - seen[i + 1]
        log_sigma = params["obs"]["log_sigma"]
        total += jnp.sum(0.5 * jnp.square(err * jnp.exp(-log_sigma)) + log_sigma)
    return total / (TIMES - 1)


def loss_fn(params, batch):
    nll = jax.vmap(experiment_nll, in_axes=(None, 0, 0, 0, 0))(
        params, batch["c0"], batch["feed"], batch["times"], batch["seen"])
    return jnp.mean(nll)


tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-3))


def step(params, opt_state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def batch(rng, n=6):
    return {
        "c0": jnp.asarray(rng.uniform(0.1, 1.0, (n, STATE)), jnp.float32),
        "feed": jnp.asarray(rng.uniform(0.0, 1.0, (n, FEED)), jnp.float32),
        "times": jnp.asarray(np.cumsum(rng.uniform(0.1, 0.4, (n, TIMES)), 1), jnp.float32),
        "seen": jnp.asarray(rng.normal(size=(n, TIMES, 3)), jnp.float32),
    }


if __name__ == "__main__":
    params = init(jax.random.PRNGKey(7))
    rng = np.random.default_rng(8)
    opt_state = tx.init(params)
    b = batch(rng)
    open(sys.argv[1], "w").write(jax.jit(step).lower(params, opt_state, b).compiler_ir("hlo").as_hlo_module().to_string())
    run = jax.jit(step)
    for i in range(5):
        params, opt_state, loss = run(params, opt_state, batch(rng))
        print(i, "%.6f" % loss, *("%.6f" % jnp.abs(p).sum() for p in jax.tree.leaves(params)))
