"""Neural ODE for drug concentration curves: two compartments plus a learned
clearance term, RK4 inside a scan, sparse noisy blood samples."""
import sys

import jax
import jax.numpy as jnp

PATIENTS = 6
STATE = 3
COVAR = 2
HIDDEN = 10
STEPS = 8
DT = 0.25


def init_params(key):
    k1, k2 = jax.random.split(key)
    return {
        "log_k": jnp.array([-0.5, -1.0, -1.2]),
        "w1": jax.random.normal(k1, (STATE + COVAR + 1, HIDDEN)) * 0.3,
        "b1": jnp.zeros(HIDDEN),
        "w2": jax.random.normal(k2, (HIDDEN, STATE)) * 0.1,
        "log_sigma": jnp.zeros(()),
    }


def rhs(params, t, y, cov, dose):
    """one patient: y [3], cov [2], dose scalar"""
    ka, ke, kp = jnp.exp(params["log_k"])
    gut, central, peri = y
    flux = jnp.stack([
        dose - ka * gut,
        ka * gut - ke * central - kp * central + kp * peri,
        kp * central - kp * peri,
    ])
    h = jnp.concatenate([y, cov, t[None]])
    h = jnp.tanh(h @ params["w1"] + params["b1"])
    return flux + h @ params["w2"]


def solve(params, y0, cov, doses):
    """one patient: doses [steps] -> trajectory [steps, 3]"""
    def step(y, inp):
        i, dose = inp
        t = i * DT
        k1 = rhs(params, t, y, cov, dose)
        k2 = rhs(params, t + DT / 2, y + DT / 2 * k1, cov, dose)
        k3 = rhs(params, t + DT / 2, y + DT / 2 * k2, cov, dose)
        k4 = rhs(params, t + DT, y + DT * k3, cov, dose)
        y = y + DT / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y, y
    ts = jnp.arange(STEPS, dtype=jnp.float32)
    _, ys = jax.lax.scan(step, y0, (ts, doses))
    return ys


def patient_loss(params, p):
    traj = solve(params, p["y0"], p["cov"], p["doses"])
    err = (traj[:, 1] - p["conc"]) * jnp.exp(-params["log_sigma"])
    nll = 0.5 * err ** 2 + params["log_sigma"]
    return (nll * p["seen"]).sum() / p["seen"].sum()


def loss_fn(params, batch):
    return jax.vmap(patient_loss, in_axes=(None, 0))(params, batch).mean()


def train_step(params, m, v, count, batch, lr=1e-2, b1=0.9, b2=0.999, eps=1e-8):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    count = count + 1
    m = jax.tree.map(lambda a, g: b1 * a + (1 - b1) * g, m, grads)
    v = jax.tree.map(lambda a, g: b2 * a + (1 - b2) * g * g, v, grads)
    c1 = 1 - b1 ** count
    c2 = 1 - b2 ** count
    params = jax.tree.map(lambda p, a, b: p - lr * (a / c1) / (jnp.sqrt(b / c2) + eps),
                          params, m, v)
    return params, m, v, count, loss


def make_batch(key):
    k1, k2, k3, k4 = jax.random.split(key, 4)
    seen = (jax.random.uniform(k4, (PATIENTS, STEPS)) < 0.6).astype(jnp.float32)
    return {
        "y0": jnp.zeros((PATIENTS, STATE)),
        "cov": jax.random.normal(k1, (PATIENTS, COVAR)),
        "doses": jax.random.uniform(k2, (PATIENTS, STEPS)),
        "conc": jax.random.uniform(k3, (PATIENTS, STEPS)),
        "seen": seen.at[:, 0].set(1.0),
    }


def main(path=None, steps=4):
    params = init_params(jax.random.key(0))
    m = jax.tree.map(jnp.zeros_like, params)
    v = jax.tree.map(jnp.zeros_like, params)
    count = jnp.zeros(())
    step = jax.jit(train_step)
    if path:
        low = step.lower(params, m, v, count, make_batch(jax.random.key(1)))
        with open(path, "w") as f:
            f.write(low.compiler_ir("hlo").as_hlo_module().to_string())
    losses = []
    for i in range(steps):
        params, m, v, count, loss = step(params, m, v, count, make_batch(jax.random.key(i + 1)))
        losses.append(float(loss))
    return losses, params


if __name__ == "__main__":
    print(main(sys.argv[1] if len(sys.argv) > 1 else None)[0])
