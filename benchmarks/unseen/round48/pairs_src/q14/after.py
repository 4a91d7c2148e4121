"""RealNVP density of calorimeter shower features, conditional on the beam energy.

Written for one shower and mapped over the batch; Adam by optax.

Run: JAX_PLATFORMS=cpu python after.py
"""
import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "b.hlo")
DIM, HIDDEN, LAYERS, BATCH = 6, 16, 3, 32
HALF = DIM // 2
LOG_NORM = 0.5 * DIM * float(np.log(2 * np.pi))
optimizer = optax.adam(1e-3, b1=0.9, b2=0.999, eps=1e-8)


def init_params(rng):
    params = []
    for _ in range(LAYERS):
        params.append({
            "w1": rng.normal(0, 0.3, (DIM // 2 + 1, HIDDEN)).astype(np.float32),
            "b1": np.zeros(HIDDEN, np.float32),
            "w_s": rng.normal(0, 0.1, (HIDDEN, DIM // 2)).astype(np.float32),
            "b_s": np.zeros(DIM // 2, np.float32),
            "w_t": rng.normal(0, 0.1, (HIDDEN, DIM // 2)).astype(np.float32),
            "b_t": np.zeros(DIM // 2, np.float32),
        })
    return jax.tree_util.tree_map(jnp.asarray, params)


def conditioner(p, x1, energy):
    h = jnp.tanh(p["w1"].T @ jnp.append(x1, energy) + p["b1"])
    log_scale = 2.0 * jnp.tanh(p["w_s"].T @ h + p["b_s"])
    return log_scale, p["w_t"].T @ h + p["b_t"]


def log_prob(params, x, energy):
    """x: [dim], energy: []"""
    x1, x2 = x[:HALF], x[HALF:]
    log_scales = []
    for p in params:
        log_scale, shift = conditioner(p, x1, energy)
        x1, x2 = x2 * jnp.exp(log_scale) + shift, x1
        log_scales.append(log_scale)
    sq = jnp.vdot(x1, x1) + jnp.vdot(x2, x2)
    return jnp.stack(log_scales).sum() - 0.5 * sq - LOG_NORM


def loss_fn(params, x, energy):
    per_shower = jax.vmap(partial(log_prob, params))(x, energy[:, 0])
    return jnp.mean(-per_shower)


def train_step(params, opt, x, energy):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, energy)
    updates, opt = optimizer.update(grads, opt, params)
    return optax.apply_updates(params, updates), opt, loss


def main():
    rng = np.random.default_rng(14)
    params = init_params(rng)
    opt = optimizer.init(params)
    step = jax.jit(train_step)
    for i in range(6):
        x = rng.normal(0, 1.5, (BATCH, DIM)).astype(np.float32)
        energy = rng.uniform(0, 1, (BATCH, 1)).astype(np.float32)
        if i == 0:
            module = step.lower(params, opt, x, energy).compiler_ir("hlo")
            with open(OUT, "w") as f:
                f.write(module.as_hlo_module().to_string())
        params, opt, loss = step(params, opt, x, energy)
        print(i, "%.7f" % loss)
    print("params", "%.6f" % sum(jnp.abs(p).sum() for p in jax.tree_util.tree_leaves(params)))


if __name__ == "__main__":
    main()
