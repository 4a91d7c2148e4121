"""Beta-VAE on binary masks, no framework: parameters are one nested dict of arrays."""
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax


class Config(NamedTuple):
    side: int = 8
    latent: int = 4
    hidden: int = 24
    beta: float = 0.5
    lr: float = 2e-3


cfg = Config()
optimizer = optax.chain(optax.scale_by_adam(), optax.scale(-cfg.lr))


def linear(p, x):
    return jnp.einsum("bi,io->bo", x, p["w"]) + p["b"]


def layer_norm(p, x):
    mean = x.mean(-1, keepdims=True)
    var = jnp.maximum(jnp.square(x).mean(-1, keepdims=True) - jnp.square(mean), 0.0)
    return (x - mean) * (lax.rsqrt(var + 1e-6) * p["gain"]) + p["shift"]


def encode(p, images):
    f = p["filters"]
    h = lax.conv_general_dilated(
        images[:, :, :, None], f["w"], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    h = jax.nn.gelu(h + f["b"])
    h = linear(p["a_trunk"], h.reshape(len(images), -1))
    h = jax.nn.gelu(layer_norm(p["norm"], h))
    log_variance = linear(p["head_log_variance"], h)
    mean = linear(p["head_mean"], h)
    return mean, log_variance


def decode(p, code):
    for layer in p["hidden"]:
        code = jax.nn.gelu(linear(layer, code))
    return linear(p["canvas"], code).reshape(-1, cfg.side, cfg.side)


def elbo_terms(p, images, key):
    mean, log_variance = encode(p["recognition"], images)
    noise = jax.random.normal(key, mean.shape)
    logits = decode(p["generation"], noise * jnp.exp(log_variance * 0.5) + mean)
    log_p = images * jax.nn.log_sigmoid(logits) + (1.0 - images) * jax.nn.log_sigmoid(-logits)
    kl = 0.5 * (jnp.exp(log_variance) + mean * mean - 1.0 - log_variance).sum(-1)
    return -log_p.sum((1, 2)), kl


def objective(p, images, key):
    rec, kl = elbo_terms(p, images, key)
    return (cfg.beta * kl + rec).mean(), {"kl": kl.mean(), "rec": rec.mean()}


@jax.jit
def update(key, images, moments, p):
    (loss, terms), grads = jax.value_and_grad(objective, has_aux=True)(p, images, key)
    delta, moments = optimizer.update(grads, moments)
    p = jax.tree.map(lambda a, d: a + d, p, delta)
    return {"loss": loss, **terms}, moments, p


def init(key):
    keys = iter(jax.random.split(key, 8))

    def lin(i, o):
        return {"w": jax.random.normal(next(keys), (i, o)) / np.sqrt(i), "b": jnp.zeros(o)}

    flat = (cfg.side // 2) ** 2 * 8
    return {
        "recognition": {
            "filters": {"w": jax.random.normal(next(keys), (3, 3, 1, 8)) / 3, "b": jnp.zeros(8)},
            "a_trunk": lin(flat, cfg.hidden),
            "norm": {"gain": jnp.ones(cfg.hidden), "shift": jnp.zeros(cfg.hidden)},
            "head_mean": lin(cfg.hidden, cfg.latent),
            "head_log_variance": lin(cfg.hidden, cfg.latent),
        },
        "generation": {
            "hidden": [lin(cfg.latent, cfg.hidden), lin(cfg.hidden, cfg.hidden)],
            "canvas": lin(cfg.hidden, cfg.side**2),
        },
    }


def blobs(rng, n=8):
    yy, xx = np.mgrid[: cfg.side, : cfg.side]
    c = rng.uniform(1, cfg.side - 2, (n, 2, 1, 1))
    return ((yy - c[:, 0]) ** 2 + (xx - c[:, 1]) ** 2 < 5).astype(np.float32)


def main():
    rng = np.random.default_rng(0)
    key = jax.random.PRNGKey(0)
    p = init(key)
    moments = optimizer.init(p)
    for step in range(4):
        key, sub = jax.random.split(key)
        metrics, moments, p = update(sub, blobs(rng), moments, p)
        print(step, " ".join(f"{k} {float(v):.3f}" for k, v in sorted(metrics.items())))


if __name__ == "__main__":
    main()
