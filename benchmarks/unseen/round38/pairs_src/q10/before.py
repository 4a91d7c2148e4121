"""Rainfall-runoff LSTM with static catchment attributes on the input gate;
loss is the basin-wise NSE, with gaps in the gauge records."""
import sys

import jax
import jax.numpy as jnp
import optax

BASINS, DAYS, FORCING, STATIC, HID, WARMUP = 5, 16, 4, 6, 10, 4


def init(key):
    k = jax.random.split(key, 5)
    return {
        "static": {"w": 0.3 * jax.random.normal(k[0], (STATIC, HID)), "b": jnp.zeros((HID,))},
        "cell": {"wx": 0.3 * jax.random.normal(k[1], (FORCING, 3 * HID)),
                 "wh": 0.3 * jax.random.normal(k[2], (HID, 3 * HID)),
                 "b": jnp.concatenate([3.0 * jnp.ones((HID,)), jnp.zeros((2 * HID,))])},
        "head": {"w": 0.3 * jax.random.normal(k[3], (HID, 1)), "b": jnp.zeros((1,))},
    }


def run_catchments(p, forcing, attrs):
    i = jax.nn.sigmoid(attrs @ p["static"]["w"] + p["static"]["b"])

    def cell(carry, x):
        h, c = carry
        z = x @ p["cell"]["wx"] + h @ p["cell"]["wh"] + p["cell"]["b"]
        f, g, o = jnp.split(z, 3, axis=-1)
        c = jax.nn.sigmoid(f) * c + i * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((forcing.shape[0], HID))
    _, hs = jax.lax.scan(cell, (zero, zero), jnp.swapaxes(forcing, 0, 1))
    flow = jax.nn.softplus(hs @ p["head"]["w"] + p["head"]["b"])
    return jnp.swapaxes(flow[..., 0], 0, 1)


def nse_loss(p, forcing, attrs, flow, basin_std):
    sim = run_catchments(p, forcing, attrs)[:, WARMUP:]
    obs = flow[:, WARMUP:]
    seen = jnp.logical_not(jnp.isnan(obs))
    err = jnp.where(seen, sim - jnp.where(seen, obs, 0.0), 0.0)
    weight = 1.0 / jnp.square(basin_std + 0.1)
    scaled = weight[:, None] * jnp.square(err)
    return jnp.sum(scaled) / jnp.maximum(jnp.sum(seen), 1)


opt = optax.chain(optax.clip(0.5), optax.adabelief(5e-3))


@jax.jit
def step(p, state, forcing, attrs, flow, basin_std):
    loss, grads = jax.value_and_grad(nse_loss)(p, forcing, attrs, flow, basin_std)
    updates, state = opt.update(grads, state, p)
    p = optax.apply_updates(p, updates)
    return p, state, {"loss": loss, "grad_norm": optax.global_norm(grads)}


def batch(key):
    k = jax.random.split(key, 5)
    flow = jax.random.uniform(k[2], (BASINS, DAYS))
    flow = jnp.where(jax.random.uniform(k[3], flow.shape) < 0.2, jnp.nan, flow)
    return (jax.random.normal(k[0], (BASINS, DAYS, FORCING)), jax.random.normal(k[1], (BASINS, STATIC)),
            flow, 0.2 + jax.random.uniform(k[4], (BASINS,)))


def main(path):
    p = init(jax.random.PRNGKey(0))
    state = opt.init(p)
    with open(path, "w") as f:
        f.write(step.lower(p, state, *batch(jax.random.PRNGKey(9))).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(3):
        p, state, m = step(p, state, *batch(jax.random.PRNGKey(i)))
        print(i, float(m["loss"]), float(m["grad_norm"]))


if __name__ == "__main__":
    main(sys.argv[1])
