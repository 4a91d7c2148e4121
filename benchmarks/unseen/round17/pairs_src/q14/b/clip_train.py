"""Contrastive image/text training: two towers, symmetric InfoNCE, AdamW by hand."""
import logging
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

log = logging.getLogger("clip")
HP = dict(img=48, vocab=60, words=10, dim=24, width=40, batch=16, lr=1e-3, wd=0.02, steps=3)


def glorot(key, shape):
    return jax.random.normal(key, shape) * (2.0 / sum(shape)) ** 0.5


def create(key):
    k = jax.random.split(key, 6)
    return {
        "image": {"l1": glorot(k[0], (HP["img"], HP["width"])),
                  "l2": glorot(k[1], (HP["width"], HP["dim"]))},
        "text": {"emb": glorot(k[2], (HP["vocab"], HP["width"])),
                 "l1": glorot(k[3], (HP["width"], HP["width"])),
                 "l2": glorot(k[4], (HP["width"], HP["dim"]))},
        "log_temp": jnp.asarray(np.log(1 / 0.07), jnp.float32),
    }


def unit(x):
    return x * jax.lax.rsqrt(jnp.sum(x * x, axis=-1, keepdims=True) + 1e-8)


def encode_image(p, images):
    h = jax.nn.silu(images @ p["l1"])
    h = (h - h.mean(axis=-1, keepdims=True)) / jnp.sqrt(h.var(axis=-1, keepdims=True) + 1e-5)
    return unit(h @ p["l2"])


def encode_text(p, words):
    valid = (words > 0)[..., None]
    h = jnp.sum(p["emb"][words] * valid, axis=1) / jnp.maximum(valid.sum(axis=1), 1)
    return unit(jax.nn.silu(h @ p["l1"]) @ p["l2"])


def info_nce(params, images, words):
    zi = encode_image(params["image"], images)
    zt = encode_text(params["text"], words)
    sim = zi @ zt.T * jnp.exp(jnp.minimum(params["log_temp"], 4.6))
    diag = jnp.diagonal(sim)
    image_to_text = jax.nn.logsumexp(sim, axis=1) - diag
    text_to_image = jax.nn.logsumexp(sim, axis=1) - diag
    recall = jnp.mean(jnp.argmax(sim, axis=1) == jnp.arange(sim.shape[0]))
    return 0.5 * jnp.mean(image_to_text + text_to_image), recall


@partial(jax.jit, donate_argnums=(0, 1, 2))
def step_fn(params, mu, nu, count, images, words):
    (loss, recall), grads = jax.value_and_grad(info_nce, has_aux=True)(params, images, words)
    mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mu, grads)
    nu = jax.tree.map(lambda n, g: 0.98 * n + 0.02 * jnp.square(g), nu, grads)
    c1, c2 = 1 - 0.9**count, 1 - 0.98**count

    def apply(p, m, n):
        decay = HP["wd"] if p.ndim == 2 else 0.0
        return p - HP["lr"] * (m / c1 / (jnp.sqrt(n / c2) + 1e-6) + decay * p)

    return jax.tree.map(apply, params, mu, nu), mu, nu, {"loss": loss, "recall": recall}


def pairs(seed=0):
    rng = np.random.default_rng(seed)
    proj = rng.normal(size=(HP["vocab"], HP["img"])).astype(np.float32)
    while True:
        words = rng.integers(0, HP["vocab"], (HP["batch"], HP["words"]))
        yield proj[words].mean(axis=1), words


def main():
    logging.basicConfig(level=logging.INFO)
    params = create(jax.random.PRNGKey(2))
    mu = jax.tree.map(jnp.zeros_like, params)
    nu = jax.tree.map(jnp.zeros_like, params)
    data = pairs()
    for i in range(1, HP["steps"] + 1):
        images, words = next(data)
        params, mu, nu, metrics = step_fn(params, mu, nu, jnp.float32(i), images, words)
        log.info("step %d %s", i, {k: round(float(v), 4) for k, v in metrics.items()})


if __name__ == "__main__":
    main()
