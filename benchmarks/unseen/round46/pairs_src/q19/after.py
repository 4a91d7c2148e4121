"""Physics-informed network for infiltration of water into soil (Richards-like equation in one
dimension, moisture form): residual, initial and boundary terms, and sensor readings; adaptive
loss weights learned as log-variances; Adam with exponential learning-rate decay."""
import os

import jax
import jax.numpy as jnp
import numpy as np
import optax

HERE = os.path.dirname(os.path.abspath(__file__))
WIDTH, INNER, SENSORS, EDGE = 12, 12, 6, 5
RAIN = 0.3


def init(key):
    sizes = [(2, WIDTH), (WIDTH, WIDTH), (WIDTH, 1)]
    keys = jax.random.split(key, len(sizes))
    net = [{"w": jax.random.normal(k, s) * jnp.sqrt(2.0 / sum(s)), "b": jnp.zeros(s[1])}
           for k, s in zip(keys, sizes)]
    return {"net": net, "log_k": jnp.zeros(()), "log_var": jnp.zeros(4)}


def mlp(net, t, z):
    h = jnp.stack([t, z], axis=-1)
    for layer in net[:-1]:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    return h @ net[-1]["w"] + net[-1]["b"]


def moisture(params, t, z):
    """Volumetric water content between 0 and 1, one value per point."""
    return jax.nn.sigmoid(mlp(params["net"], t, z))


def flux(params, t, z):
    """Darcy flux, positive downwards; diffusivity and conductivity grow with the moisture."""
    def total(zz):
        return jnp.sum(moisture(params, t, zz))
    theta = moisture(params, t, z)
    slope = jax.grad(total)(z)
    k = jnp.exp(params["log_k"]) * theta ** 3
    return k - 0.1 * theta * slope


def residual(params, t, z):
    theta_t = jax.grad(lambda tt: jnp.sum(moisture(params, tt, z)))(t)
    flux_z = jax.grad(lambda zz: jnp.sum(flux(params, t, zz)))(z)
    return theta_t + flux_z


def mse(a):
    return jnp.mean(jnp.square(a))


def loss_fn(params, batch):
    terms = jnp.stack([
        mse(residual(params, batch["t"], batch["z"])),
        mse(flux(params, batch["t_top"], jnp.zeros_like(batch["t_top"])) - RAIN),
        mse(moisture(params, jnp.zeros_like(batch["z_init"]), batch["z_init"]) - 0.1),
        mse(moisture(params, batch["t_obs"], batch["z_obs"]) - batch["theta_obs"]),
    ])
    s = params["log_var"]
    return jnp.sum(jnp.exp(-s) * terms + s), terms


schedule = optax.exponential_decay(2e-3, transition_steps=100, decay_rate=0.9)
tx = optax.adam(schedule)


def step(params, opt_state, batch):
    (loss, terms), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch)
    updates, opt_state = tx.update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state, loss, terms


def make_batch(rng):
    u = lambda n: jnp.asarray(rng.uniform(size=n), jnp.float32)
    return {"t": u(INNER), "z": u(INNER), "t_top": u(EDGE), "z_init": u(EDGE),
            "t_obs": u(SENSORS), "z_obs": u(SENSORS), "theta_obs": u(SENSORS)}


def main(target):
    rng = np.random.default_rng(3)
    params = init(jax.random.PRNGKey(4))
    opt_state = tx.init(params)
    batch = make_batch(rng)
    jitted = jax.jit(step)
    with open(os.path.join(HERE, target), "w") as f:
        f.write(jitted.lower(params, opt_state, batch).compiler_ir("hlo").as_hlo_module().to_string())
    for _ in range(3):
        params, opt_state, loss, terms = jitted(params, opt_state, batch)
        print(float(loss), terms)
        batch = make_batch(rng)


if __name__ == "__main__":
    main("b.hlo")
