"""Polymer identification from Raman spectra."""
import os
import jax
import jax.numpy as jnp
from jax import random, nn, lax

POLYMERS = 7
POINTS = 80
SETTINGS = {"filters": 10, "dense": 24, "lr": 0.05, "decay": 1e-4, "batch": 16}


def glorot(key, shape, fan_in):
    return random.normal(key, shape) / jnp.sqrt(fan_in)


def build(key):
    f, d = SETTINGS["filters"], SETTINGS["dense"]
    k = random.split(key, 4)
    flat = f * (POINTS // 4)
    return (
        (glorot(k[0], (f, 1, 7), 7), jnp.zeros(f)),
        (glorot(k[1], (f, f, 5), 5 * f), jnp.zeros(f)),
        (glorot(k[2], (flat, d), flat), jnp.zeros(d)),
        (glorot(k[3], (d, POLYMERS), d), jnp.zeros(POLYMERS)),
    )


def snv(x):
    """Standard normal variate: every spectrum is centred and scaled by itself."""
    mean = jnp.mean(x, axis=-1, keepdims=True)
    spread = jnp.std(x, axis=-1, ddof=1, keepdims=True)
    return (x - mean) / (spread + 1e-6)


def detrend(x):
    t = jnp.linspace(-1.0, 1.0, x.shape[-1])
    slope = (x * t).sum(-1, keepdims=True) / (t * t).sum()
    return x - slope * t


def conv(x, w, b):
    y = lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NCH", "OIH", "NCH"))
    return y + b[None, :, None]


def pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2), (1, 1, 2), "VALID")


def logits(params, spectra):
    (w1, b1), (w2, b2), (w3, b3), (w4, b4) = params
    x = snv(detrend(spectra))[:, None, :]
    x = pool(nn.relu(conv(x, w1, b1)))
    x = pool(nn.relu(conv(x, w2, b2)))
    x = nn.relu(x.reshape(x.shape[0], -1) @ w3 + b3)
    return x @ w4 + b4


def objective(params, spectra, kind):
    logp = nn.log_softmax(logits(params, spectra))
    nll = -(nn.one_hot(kind, POLYMERS) * logp).sum(-1).mean()
    l2 = sum((w ** 2).sum() for w, _ in params)
    return nll + SETTINGS["decay"] * l2


def step(params, spectra, kind):
    value, grads = jax.value_and_grad(objective)(params, spectra, kind)
    norm = jnp.sqrt(sum((g ** 2).sum() for g in jax.tree.leaves(grads)))
    factor = jnp.minimum(1.0, 2.0 / (norm + 1e-9))
    return jax.tree.map(lambda p, g: p - SETTINGS["lr"] * factor * g, params, grads), value, norm


def spectra_batch(key):
    kk, kn, ks = random.split(key, 3)
    n = SETTINGS["batch"]
    kind = random.randint(kk, (n,), 0, POLYMERS)
    grid = jnp.arange(POINTS)
    centres = 8.0 + 9.0 * kind[:, None] + jnp.array([0.0, 5.0])[None]
    lines = jnp.exp(-0.5 * ((grid[None, :, None] - centres[:, None, :]) / 1.5) ** 2).sum(-1)
    gain = 1.0 + random.uniform(ks, (n, 1)) * 5
    return gain * (lines + 0.02 * grid / POINTS) + 0.1 * random.normal(kn, (n, POINTS)), kind


if __name__ == "__main__":
    key = random.PRNGKey(int(os.environ.get("SEED", 3)))
    params = build(key)
    if "HLO_OUT" in os.environ:
        ir = jax.jit(step).lower(params, *spectra_batch(key)).compiler_ir("hlo")
        with open(os.environ["HLO_OUT"], "w") as fh:
            fh.write(ir.as_hlo_text())
    else:
        fast = jax.jit(step)
        for i in range(45):
            key, sub = random.split(key)
            params, value, norm = fast(params, *spectra_batch(sub))
            if (i + 1) % 15 == 0:
                print("batch", i + 1, "nll", float(value), "grad", float(norm))
