"""Rainfall-runoff model: entity-aware LSTM over catchments, NSE-type loss."""
import sys

import jax
import jax.numpy as jnp
import optax

BASINS, DAYS, FORC, STAT, HID = 5, 12, 4, 6, 10
tx = optax.adamw(1e-3, weight_decay=1e-5)


def init_params(key):
    ks = jax.random.split(key, 9)
    n = lambda k, *s: jax.random.normal(k, s) * 0.2
    return {
        "w_f": n(ks[0], FORC, HID), "u_f": n(ks[1], HID, HID), "b_f": jnp.full((HID,), 3.0),
        "w_g": n(ks[2], FORC, HID), "u_g": n(ks[3], HID, HID), "b_g": jnp.zeros((HID,)),
        "w_o": n(ks[4], FORC, HID), "u_o": n(ks[5], HID, HID), "b_o": jnp.zeros((HID,)),
        "w_s": n(ks[6], STAT, HID), "b_s": jnp.zeros((HID,)),
        "head_w": n(ks[7], HID, 1), "head_b": jnp.zeros((1,)),
    }


def forward(p, forcing, static):
    """forcing [days, basins, FORC], static [basins, STAT] -> discharge [days, basins]"""
    i = jax.nn.sigmoid(static @ p["w_s"] + p["b_s"])

    def cell(carry, x):
        h, c = carry
        f = jax.nn.sigmoid(x @ p["w_f"] + h @ p["u_f"] + p["b_f"])
        g = jnp.tanh(x @ p["w_g"] + h @ p["u_g"] + p["b_g"])
        o = jax.nn.sigmoid(x @ p["w_o"] + h @ p["u_o"] + p["b_o"])
        c = f * c + i * g
        h = o * jnp.tanh(c)
        y = (h @ p["head_w"] + p["head_b"])[:, 0]
        return (h, c), y

    zeros = jnp.zeros((static.shape[0], HID))
    _, ys = jax.lax.scan(cell, (zeros, zeros), forcing)
    return jax.nn.softplus(ys)


def nse_loss(p, batch):
    sim = forward(p, batch["forcing"], batch["static"])
    obs, valid, std = batch["obs"], batch["valid"], batch["std"]

    def one_basin(s, o, v, sd):
        sq = jnp.where(v, jnp.square(s - o), 0.0)
        return jnp.sum(sq) / jnp.square(sd + 0.1), jnp.sum(v)

    err, n = jax.vmap(one_basin, in_axes=(1, 1, 1, 0))(sim, obs, valid, std)
    return jnp.sum(err) / jnp.maximum(jnp.sum(n), 1)


def train_step(params, opt_state, batch):
    loss, grads = jax.value_and_grad(nse_loss)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def make_batch(key):
    k = jax.random.split(key, 5)
    return {
        "forcing": jax.random.normal(k[0], (DAYS, BASINS, FORC)),
        "static": jax.random.normal(k[1], (BASINS, STAT)),
        "obs": jax.nn.softplus(jax.random.normal(k[2], (DAYS, BASINS))),
        "valid": jax.random.uniform(k[3], (DAYS, BASINS)) > 0.1,
        "std": jax.random.uniform(k[4], (BASINS,), minval=0.3, maxval=2.0),
    }


def run(steps, path=None):
    params = init_params(jax.random.PRNGKey(0))
    opt_state = tx.init(params)
    step = jax.jit(train_step)
    hist = []
    for i in range(steps):
        batch = make_batch(jax.random.PRNGKey(50 + i))
        if i == 0 and path:
            with open(path, "w") as f:
                f.write(step.lower(params, opt_state, batch).compiler_ir("hlo").as_hlo_module().to_string())
        params, opt_state, loss = step(params, opt_state, batch)
        hist.append(float(loss))
    return hist, params


if __name__ == "__main__":
    print(run(3, sys.argv[1])[0])
