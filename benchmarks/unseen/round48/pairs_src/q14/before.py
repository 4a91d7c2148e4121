"""RealNVP density of calorimeter shower features, conditional on the beam energy.

Run: JAX_PLATFORMS=cpu python before.py
"""
import os

import jax
import jax.numpy as jnp
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "a.hlo")
DIM, HIDDEN, LAYERS, BATCH = 6, 16, 3, 32
LR, B1, B2, EPS = 1e-3, 0.9, 0.999, 1e-8


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


def init_opt(params):
    zeros = jax.tree_util.tree_map(jnp.zeros_like, params)
    return {"count": jnp.zeros((), jnp.int32), "mu": zeros, "nu": zeros}


def coupling(p, x, energy):
    """x: [batch, dim], energy: [batch, 1]"""
    x1, x2 = jnp.split(x, 2, axis=1)
    h = jnp.concatenate([x1, energy], axis=1)
    h = jnp.tanh(jnp.dot(h, p["w1"]) + p["b1"])
    s = 2.0 * jnp.tanh(jnp.dot(h, p["w_s"]) + p["b_s"])
    t = jnp.dot(h, p["w_t"]) + p["b_t"]
    y2 = x2 * jnp.exp(s) + t
    # halves change places for the next layer
    return jnp.concatenate([y2, x1], axis=1), jnp.sum(s, axis=1)


def log_prob(params, x, energy):
    total = jnp.zeros(x.shape[0], x.dtype)
    for p in params:
        x, log_det = coupling(p, x, energy)
        total = total + log_det
    base = -0.5 * jnp.sum(x ** 2, axis=1) - 0.5 * DIM * jnp.log(2 * jnp.pi)
    return base + total


def loss_fn(params, x, energy):
    return -jnp.mean(log_prob(params, x, energy))


def adam_update(grads, opt, params):
    count = opt["count"] + 1
    t = count.astype(jnp.float32)
    mu = jax.tree_util.tree_map(lambda m, g: B1 * m + (1 - B1) * g, opt["mu"], grads)
    nu = jax.tree_util.tree_map(lambda v, g: B2 * v + (1 - B2) * g * g, opt["nu"], grads)

    def new_param(p, m, v):
        m_hat = m / (1 - B1 ** t)
        v_hat = v / (1 - B2 ** t)
        return p - LR * m_hat / (jnp.sqrt(v_hat) + EPS)

    params = jax.tree_util.tree_map(new_param, params, mu, nu)
    return params, {"count": count, "mu": mu, "nu": nu}


def train_step(params, opt, x, energy):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, energy)
    params, opt = adam_update(grads, opt, params)
    return params, opt, loss


def main():
    rng = np.random.default_rng(14)
    params = init_params(rng)
    opt = init_opt(params)
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
