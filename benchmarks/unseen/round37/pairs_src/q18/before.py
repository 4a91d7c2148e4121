"""River gauges: a Kalman filter with learned dynamics under a neural observation encoder."""
import sys

import jax
import jax.numpy as jnp
import optax

SENSORS, HID, OBS, STATE, SPAN, BATCH = 6, 10, 2, 4, 9, 3


def init(key):
    k = jax.random.split(key, 5)
    return {
        "enc": [
            {"w": jax.random.normal(k[0], (SENSORS, HID)) / SENSORS**0.5, "b": jnp.zeros(HID)},
            {"w": jax.random.normal(k[1], (HID, OBS)) / HID**0.5, "b": jnp.zeros(OBS)},
        ],
        "drift": 0.1 * jax.random.normal(k[2], (STATE, STATE)),
        "emit": jax.random.normal(k[3], (OBS, STATE)) / STATE**0.5,
        "log_q": jnp.full(STATE, -2.0),
        "log_r": jnp.full(OBS, -1.0),
        "m0": 0.1 * jax.random.normal(k[4], (STATE,)),
        "log_p0": jnp.zeros(STATE),
    }


def encode(layers, x):
    for layer in layers[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x @ layers[-1]["w"] + layers[-1]["b"]


def inv2(s):
    """Inverse and log-determinant of a symmetric 2x2 matrix."""
    a, b, d = s[0, 0], s[0, 1], s[1, 1]
    det = a * d - b * b
    inv = jnp.array([[d, -b], [-b, a]]) / det
    return inv, jnp.log(det)


def kalman(params, ys, dt):
    """Filtered means [T, STATE] and the log-likelihood of ys [T, OBS]."""
    a = jnp.eye(STATE) + dt * params["drift"]
    h = params["emit"]
    q = jnp.diag(dt * jax.nn.softplus(params["log_q"]))
    r = jnp.diag(jax.nn.softplus(params["log_r"]))

    def step(carry, y):
        m, p = carry
        m_pred = a @ m
        p_pred = a @ p @ a.T + q
        innov = y - h @ m_pred
        s_inv, s_logdet = inv2(h @ p_pred @ h.T + r)
        gain = p_pred @ h.T @ s_inv
        m = m_pred + gain @ innov
        p = p_pred - gain @ h @ p_pred
        p = 0.5 * (p + p.T)
        ll = -0.5 * (innov @ s_inv @ innov + s_logdet + OBS * jnp.log(2 * jnp.pi))
        return (m, p), (m, ll)

    p0 = jnp.diag(jnp.exp(params["log_p0"]))
    _, (means, lls) = jax.lax.scan(step, (params["m0"], p0), ys)
    return means, lls.sum()


def loss_fn(params, readings, level, dt):
    ys = encode(params["enc"], readings)
    means, ll = jax.vmap(kalman, in_axes=(None, 0, None))(params, ys, dt)
    anchor = jnp.mean((means[..., 0] - level) ** 2)
    return anchor - 0.1 * jnp.mean(ll) / SPAN


tx = optax.chain(optax.clip_by_global_norm(1.0), optax.rmsprop(3e-3, decay=0.95))


def train_step(params, opt_state, readings, level, dt):
    loss, grads = jax.value_and_grad(loss_fn)(params, readings, level, dt)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def batch(key):
    k1, k2 = jax.random.split(key)
    level = jnp.cumsum(jax.random.normal(k1, (BATCH, SPAN)), axis=1) * 0.3
    gain = jnp.linspace(0.2, 1.4, SENSORS)
    readings = level[..., None] * gain + 0.1 * jax.random.normal(k2, (BATCH, SPAN, SENSORS))
    return readings, level


def main(dump=None):
    params = init(jax.random.PRNGKey(0))
    opt_state = tx.init(params)
    step = jax.jit(train_step)
    if dump:
        args = (params, opt_state, *batch(jax.random.PRNGKey(9)), 0.5)
        with open(dump, "w") as f:
            f.write(step.lower(*args).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(4):
        params, opt_state, loss = step(params, opt_state, *batch(jax.random.PRNGKey(i)), 0.5)
        print(i, float(loss))


if __name__ == "__main__":
    main(*sys.argv[1:])
