"""Hamiltonian neural network for Henon-Heiles orbits."""
import sys

import jax
import jax.numpy as jnp
import optax

DIM, WIDTH, BATCH = 2, 32, 16


def init(key):
    sizes = [2 * DIM, WIDTH, WIDTH, 1]
    layers = []
    for k, (m, n) in zip(jax.random.split(key, 3), zip(sizes[:-1], sizes[1:])):
        layers.append({"w": jax.random.normal(k, (m, n)) / jnp.sqrt(m), "b": jnp.zeros((n,))})
    return {"layers": layers, "log_mass": jnp.zeros((DIM,))}


def energy(params, q, p):
    h = jnp.concatenate([q, p])
    for layer in params["layers"][:-1]:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    last = params["layers"][-1]
    kinetic = 0.5 * jnp.sum(p ** 2 * jnp.exp(-params["log_mass"]))
    return kinetic + (h @ last["w"] + last["b"])[0]


def field(params, q, p):
    dq, dp = jax.grad(energy, argnums=(1, 2))(params, q, p)
    return dp, -dq


def leapfrog(params, q, p, dt=0.05):
    _, f = field(params, q, p)
    p = p + 0.5 * dt * f
    v, _ = field(params, q, p)
    q = q + dt * v
    _, f = field(params, q, p)
    return q, p + 0.5 * dt * f


def loss_fn(params, batch):
    q, p = jax.vmap(leapfrog, in_axes=(None, 0, 0))(params, batch["q0"], batch["p0"])
    return jnp.mean((q - batch["q1"]) ** 2) + jnp.mean((p - batch["p1"]) ** 2)


def decay_mask(params):
    return jax.tree_util.tree_map(lambda x: x.ndim > 1, params)


tx = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.add_decayed_weights(1e-4, mask=decay_mask),
    optax.scale_by_adam(b1=0.9, b2=0.99),
    optax.scale_by_schedule(optax.cosine_decay_schedule(-1e-3, 1000)),
)


@jax.jit
def train_step(params, opt_state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def orbits(key):
    k = jax.random.split(key, 2)
    q0 = 0.3 * jax.random.normal(k[0], (BATCH, DIM))
    p0 = 0.3 * jax.random.normal(k[1], (BATCH, DIM))

    def force(q):
        return -jnp.stack([q[:, 0] + 2 * q[:, 0] * q[:, 1], q[:, 1] + q[:, 0] ** 2 - q[:, 1] ** 2], 1)

    ph = p0 + 0.025 * force(q0)
    q1 = q0 + 0.05 * ph
    return {"q0": q0, "p0": p0, "q1": q1, "p1": ph + 0.025 * force(q1)}


def main(dump=None):
    params = init(jax.random.PRNGKey(0))
    opt_state = tx.init(params)
    for i in range(3):
        batch = orbits(jax.random.PRNGKey(i + 1))
        if dump:
            text = train_step.lower(params, opt_state, batch).compiler_ir("hlo").as_hlo_text()
            with open(f"{dump}_{i}.hlo", "w") as f:
                f.write(text)
        params, opt_state, loss = train_step(params, opt_state, batch)
        print(i, float(loss), train_step._cache_size())


if __name__ == "__main__":
    main(*sys.argv[1:])
