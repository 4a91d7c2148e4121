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


def dense(layer, x):
    return x @ layer["w"] + layer["b"]


def field(params, c, feed):
    """c: (experiments, STATE), feed: (experiments, FEED)"""
    z = jnp.concatenate([jnp.log1p(jnp.abs(c)), feed], axis=-1)
    growth = dense(params["yield"], jax.nn.softplus(dense(params["rate"], z)))
    return growth - c * jax.nn.softplus(params["decay"])


# nodes and weights of the classical Runge-Kutta method
NODES = (0.0, 0.5, 0.5, 1.0)
WEIGHTS = (1.0, 2.0, 2.0, 1.0)


def integrate(params, c, feed, h):
    h = h[:, None]
    slope, acc = None, None
    for node, weight in zip(NODES, WEIGHTS):
        at = c if slope is None else c + node * h * slope
        slope = field(params, at, feed)
        acc = slope if acc is None else acc + (slope if weight == 1.0 else weight * slope)
    return c + h * acc / 6.0


def trajectory(params, batch):
    c = batch["c0"]
    out = []
    for h in jnp.unstack(jnp.diff(batch["times"], axis=1), axis=1):
        c = integrate(params, c, batch["feed"], h)
        out.append(c)
    return jnp.stack(out, axis=1)


def loss_fn(params, batch):
    """Gaussian NLL of all experiments and times at once."""
    pred = jnp.einsum("nts,so->nto", trajectory(params, batch), params["obs"]["w"])
    log_sigma = params["obs"]["log_sigma"]
    z = (pred - batch["seen"][:, 1:]) * jnp.exp(-log_sigma)
    return jnp.mean(jnp.sum(0.5 * z**2 + log_sigma, axis=-1))


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
