"""Hamiltonian neural network for a chain of coupled pendula, trained on short rollouts with a
velocity-Verlet (kick-drift-kick) integrator, learned friction, and an energy-drift penalty."""
import os

import jax
import jax.numpy as jnp
import numpy as np
import optax

HERE = os.path.dirname(os.path.abspath(__file__))
DOF, WIDTH, BATCH, ROLLOUT, DT = 3, 16, 8, 2, 0.05


def init(key):
    ks = jax.random.split(key, 4)
    return {
        "v1": {"w": jax.random.normal(ks[0], (2 * DOF, WIDTH)) / jnp.sqrt(2 * DOF),
               "b": jnp.zeros(WIDTH)},
        "v2": {"w": jax.random.normal(ks[1], (WIDTH, WIDTH)) / jnp.sqrt(WIDTH),
               "b": jnp.zeros(WIDTH)},
        "v3": {"w": jax.random.normal(ks[2], (WIDTH, 1)) / jnp.sqrt(WIDTH)},
        "log_mass": jnp.zeros(DOF),
        "friction": jnp.full((DOF,), -3.0),
    }


def potential(params, q):
    feats = jnp.concatenate([jnp.sin(q), jnp.cos(q)], axis=-1)
    h = jnp.tanh(feats @ params["v1"]["w"] + params["v1"]["b"])
    h = jnp.tanh(h @ params["v2"]["w"] + params["v2"]["b"])
    return (h @ params["v3"]["w"])[..., 0]


def kinetic(params, p):
    return 0.5 * jnp.sum(jnp.square(p) * jnp.exp(-params["log_mass"]), axis=-1)


def energy(params, q, p):
    return kinetic(params, p) + potential(params, q)


def force(params, q):
    return -jax.grad(lambda x: jnp.sum(potential(params, x)))(q)


def verlet(params, q, p, torque):
    damping = jnp.exp(-DT * jax.nn.softplus(params["friction"]))
    kick = 0.5 * DT * (force(params, q) + torque)
    p = p + kick
    q = q + DT * p * jnp.exp(-params["log_mass"])
    p = p + kick
    return q, p * damping


def angle_error(a, b):
    return 1.0 - jnp.cos(a - b)


def loss_fn(params, batch):
    q, p = batch["q"][:, 0], batch["p"][:, 0]
    e0 = energy(params, q, p)
    total = 0.0
    for t in range(ROLLOUT):
        q, p = verlet(params, q, p, batch["torque"][:, t])
        total += jnp.mean(jnp.sum(angle_error(q, batch["q"][:, t + 1]), axis=-1))
        total += 0.1 * jnp.mean(jnp.sum(jnp.square(p - batch["p"][:, t + 1]), axis=-1))
    drift = jnp.mean(jnp.square(energy(params, q, p) - e0))
    return total / ROLLOUT + 1e-2 * drift, {"drift": drift}


optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-3))


def step(params, opt_state, batch):
    (loss, aux), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss, aux


def main(target):
    params = init(jax.random.PRNGKey(0))
    opt_state = optimizer.init(params)
    rng = np.random.default_rng(1)
    batch = {
        "q": jnp.asarray(rng.normal(size=(BATCH, ROLLOUT + 1, DOF)), jnp.float32),
        "p": jnp.asarray(rng.normal(size=(BATCH, ROLLOUT + 1, DOF)), jnp.float32),
        "torque": jnp.asarray(rng.normal(size=(BATCH, ROLLOUT, DOF)), jnp.float32),
    }
    jitted = jax.jit(step)
    text = jitted.lower(params, opt_state, batch).compiler_ir("hlo").as_hlo_module().to_string()
    with open(os.path.join(HERE, target), "w") as f:
        f.write(text)
    for _ in range(3):
        params, opt_state, loss, aux = jitted(params, opt_state, batch)
        print(float(loss), float(aux["drift"]))


if __name__ == "__main__":
    main("b.hlo")
