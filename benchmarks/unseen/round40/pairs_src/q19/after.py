"""Drug concentrations: a neural ODE with known elimination, fitted to sparse samples."""
import sys

import jax
import jax.numpy as jnp
import optax

PATIENTS, COMP, HID, COV, STEPS, DT, OBS_EVERY = 6, 3, 10, 4, 12, 0.25, 3


def dense(key, i, o):
    return {"w": jax.random.normal(key, (i, o)) * (1.0 / i) ** 0.5, "b": jnp.zeros(o)}


def init(key):
    k = jax.random.split(key, 4)
    return {
        "cov1": dense(k[0], COV, HID),
        "cov2": dense(k[1], HID, COMP),
        "f1": dense(k[2], COMP + COMP, HID),
        "f2": dense(k[3], HID, COMP),
        "log_ke": jnp.full((COMP,), -1.0),
        "log_sigma": jnp.zeros(()),
    }


def lin(p, x):
    return x @ p["w"] + p["b"]


def field(params, z, y):
    """dy/dt: a learned transfer between compartments minus first-order elimination."""
    h = jnp.tanh(lin(params["f1"], jnp.concatenate([y, z], -1)))
    return lin(params["f2"], h) - jnp.exp(params["log_ke"]) * y


def rk4(params, z, y, dose):
    y = y.at[:, 0].add(dose)
    k1 = field(params, z, y)
    k2 = field(params, z, y + 0.5 * DT * k1)
    k3 = field(params, z, y + 0.5 * DT * k1)
    k4 = field(params, z, y + DT * k3)
    return y + DT / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def solve(params, cov, doses):
    z = lin(params["cov2"], jax.nn.silu(lin(params["cov1"], cov)))

    def body(y, dose):
        y = rk4(params, z, y, dose)
        return y, jax.nn.softplus(y[:, 0])

    y0 = jnp.zeros((cov.shape[0], COMP))
    _, conc = jax.lax.scan(body, y0, doses.T)
    return conc[OBS_EVERY - 1 :: OBS_EVERY].T


def loss_fn(params, cov, doses, obs, seen):
    conc = solve(params, cov, doses)
    sigma = jnp.exp(params["log_sigma"])
    err = (jnp.log1p(conc) - jnp.log1p(obs)) / sigma
    nll = 0.5 * err ** 2 + params["log_sigma"]
    return jnp.where(seen, nll, 0.0).sum() / seen.sum()


tx = optax.chain(
    optax.scale_by_adam(),
    optax.clip_by_global_norm(1.0),
    optax.add_decayed_weights(1e-3),
    optax.scale(-3e-3),
)


def step(params, opt_state, cov, doses, obs, seen):
    loss, grads = jax.value_and_grad(loss_fn)(params, cov, doses, obs, seen)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def batch(seed):
    k = jax.random.split(jax.random.PRNGKey(seed), 4)
    n_obs = STEPS // OBS_EVERY
    return (
        jax.random.normal(k[0], (PATIENTS, COV)),
        jax.random.bernoulli(k[1], 0.3, (PATIENTS, STEPS)) * 1.5,
        jnp.abs(jax.random.normal(k[2], (PATIENTS, n_obs))),
        jax.random.bernoulli(k[3], 0.8, (PATIENTS, n_obs)),
    )


if __name__ == "__main__":
    params = init(jax.random.PRNGKey(0))
    state = tx.init(params)
    low = jax.jit(step).lower(params, state, *batch(0))
    open(sys.argv[1], "w").write(low.compiler_ir("hlo").as_hlo_module().to_string())
    run = jax.jit(step)
    for it in range(4):
        params, state, loss = run(params, state, *batch(it))
        print(it, "%.7f" % float(loss))
