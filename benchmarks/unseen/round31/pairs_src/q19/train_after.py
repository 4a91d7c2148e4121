"""Probabilistic ensemble dynamics model (PETS): K Gaussian networks trained on bootstrapped transitions."""
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import optax

OBS, ACT, HID, K = 5, 2, 24, 4
DECAY = (2.5e-5, 5e-5, 1e-4)


def init(key):
    net = {}
    for n, (i, o) in enumerate([(OBS + ACT, HID), (HID, HID), (HID, 2 * OBS)]):
        key, sub = jax.random.split(key)
        net[f"kernel{n}"] = jax.random.truncated_normal(sub, -2, 2, (K, i, o)) / (2 * np.sqrt(i))
        net[f"bias{n}"] = jnp.zeros((K, o))
    return {"logvar": {"lo": jnp.full(OBS, -10.0), "hi": jnp.full(OBS, 0.5)}, "net": net}


def forward(params, x):
    """All members at once: x is (member, batch, feature)."""
    net, lim = params["net"], params["logvar"]
    n = len(net) // 2
    h = x
    for i in range(n):
        h = jnp.einsum("kbi,kio->kbo", h, net[f"kernel{i}"]) + net[f"bias{i}"][:, None]
        if i < n - 1:
            h = h * jax.nn.sigmoid(h)
    mean, logvar = jnp.split(h, 2, axis=-1)
    logvar = lim["hi"] - jnp.logaddexp(lim["hi"] - logvar, 0.0)
    logvar = lim["lo"] + jnp.logaddexp(logvar - lim["lo"], 0.0)
    return mean, logvar


def l2(net):
    return jnp.stack([0.5 * c * jnp.sum(jnp.square(net[f"kernel{i}"]), axis=(1, 2)) for i, c in enumerate(DECAY)]).sum(0)


def loss_fn(params, stats, x, y):
    mean, logvar = forward(params, (x - stats["mean"]) / stats["std"])
    nll = logvar + jnp.square(y - mean) / jnp.exp(logvar)
    per_member = nll.mean(axis=(1, 2)) + l2(params["net"])
    lim = params["logvar"]
    return per_member.sum() + 0.01 * jnp.sum(lim["hi"] - lim["lo"]), per_member


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
