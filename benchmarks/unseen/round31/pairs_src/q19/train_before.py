"""Probabilistic ensemble dynamics model (PETS): K Gaussian networks trained on bootstrapped transitions."""
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import optax

OBS, ACT, HID, K = 5, 2, 24, 4
DECAY = (2.5e-5, 5e-5, 1e-4)


def init_member(key):
    sizes = [(OBS + ACT, HID), (HID, HID), (HID, 2 * OBS)]
    layers = []
    for k, (i, o) in zip(jax.random.split(key, len(sizes)), sizes):
        w = jax.random.truncated_normal(k, -2, 2, (i, o)) / (2 * np.sqrt(i))
        layers.append({"w": w, "b": jnp.zeros(o)})
    return layers


def init(key):
    return {
        "members": jax.vmap(init_member)(jax.random.split(key, K)),
        "max_logvar": 0.5 * jnp.ones(OBS),
        "min_logvar": -10.0 * jnp.ones(OBS),
    }


def forward(layers, max_logvar, min_logvar, x):
    """One member, one input."""
    for layer in layers[:-1]:
        x = jax.nn.swish(x @ layer["w"] + layer["b"])
    out = x @ layers[-1]["w"] + layers[-1]["b"]
    mean, logvar = out[:OBS], out[OBS:]
    logvar = max_logvar - jax.nn.softplus(max_logvar - logvar)
    logvar = min_logvar + jax.nn.softplus(logvar - min_logvar)
    return mean, logvar


def member_loss(layers, max_logvar, min_logvar, x, y):
    mean, logvar = jax.vmap(forward, in_axes=(None, None, None, 0))(layers, max_logvar, min_logvar, x)
    nll = jnp.mean((mean - y) ** 2 * jnp.exp(-logvar) + logvar)
    decay = sum(c * 0.5 * jnp.sum(layer["w"] ** 2) for c, layer in zip(DECAY, layers))
    return nll + decay


def loss_fn(params, stats, x, y):
    x = (x - stats["mean"]) / stats["std"]
    losses = jax.vmap(member_loss, in_axes=(0, None, None, 0, 0))(
        params["members"], params["max_logvar"], params["min_logvar"], x, y
    )
    bound = 0.01 * (jnp.sum(params["max_logvar"]) - jnp.sum(params["min_logvar"]))
    return jnp.sum(losses) + bound, losses


def make_step(tx):
    @jax.jit
    def step(params, opt_state, stats, x, y):
        (loss, per_member), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, stats, x, y)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss, per_member

    return step


def transitions(n=2000, seed=0):
    g = np.random.default_rng(seed)
    obs = g.normal(size=(n, OBS)) * np.array([1, 2, 0.5, 1, 4])
    act = g.uniform(-1, 1, size=(n, ACT))
    delta = 0.1 * np.tanh(obs[:, ::-1]) + 0.05 * act @ g.normal(size=(ACT, OBS)) + 0.01 * g.normal(size=(n, OBS))
    return np.concatenate([obs, act], 1).astype(np.float32), delta.astype(np.float32)


def main(params=None, steps=10, batch=16):
    x, y = transitions()
    stats = {"mean": jnp.asarray(x.mean(0)), "std": jnp.asarray(x.std(0) + 1e-6)}
    params = init(jax.random.key(0)) if params is None else params
    tx = optax.adam(1e-3)
    opt_state = tx.init(params)
    step = make_step(tx)
    g = np.random.default_rng(1)
    boot = g.integers(0, len(x), size=(K, len(x)))
    losses = []
    for i in range(steps):
        idx = boot[:, i * batch:(i + 1) * batch]
        if "DUMP" in os.environ and i == 0:
            open(os.environ["DUMP"], "w").write(step.lower(params, opt_state, stats, x[idx], y[idx]).as_text(dialect="hlo"))
        params, opt_state, loss, _ = step(params, opt_state, stats, x[idx], y[idx])
        losses.append(float(loss))
    return losses, params


if __name__ == "__main__":
    print(main()[0])
