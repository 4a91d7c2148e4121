"""Contrastive image-text pretraining, two towers."""
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

IMG, PATCH, WORDS, LEN, D, OUT = 16, 4, 50, 10, 24, 16


def glorot(key, *shape):
    return jax.random.normal(key, shape) * (2.0 / (shape[-2] + shape[-1])) ** 0.5


def block_params(key):
    k = jax.random.split(key, 4)
    return {"qkv": glorot(k[0], D, 3 * D), "proj": glorot(k[1], D, D),
            "fc1": glorot(k[2], D, 2 * D), "fc2": glorot(k[3], 2 * D, D), "g1": jnp.ones(D), "g2": jnp.ones(D)}


def setup(key):
    k = jax.random.split(key, 10)
    n = (IMG // PATCH) ** 2
    return {
        "image": {"patch": glorot(k[0], PATCH * PATCH * 3, D), "pos": 0.02 * jax.random.normal(k[1], (n, D)),
                  "blocks": [block_params(k[2])], "head": glorot(k[3], D, OUT)},
        "text": {"embed": 0.02 * jax.random.normal(k[4], (WORDS, D)), "pos": 0.02 * jax.random.normal(k[5], (LEN, D)),
                 "blocks": [block_params(k[6])], "head": glorot(k[7], D, OUT)},
        "scale": jnp.log(jnp.array(1 / 0.07)),
    }


def layer_norm(x, g):
    m = x.mean(-1, keepdims=True)
    return g * (x - m) * jax.lax.rsqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5)


def attend(p, x, mask=None):
    q, k, v = jnp.split(x @ p["qkv"], 3, axis=-1)
    s = q @ jnp.swapaxes(k, -1, -2) * D ** -0.5
    if mask is not None:
        s = jnp.where(mask[:, None, :], s, -1e9)
    return jax.nn.softmax(s, -1) @ v @ p["proj"]


def block(p, x, mask=None):
    x = x + attend(p, layer_norm(x, p["g1"]), mask)
    return x + jax.nn.gelu(layer_norm(x, p["g2"]) @ p["fc1"]) @ p["fc2"]


def unit(x):
    return x / jnp.sqrt((x * x).sum(-1, keepdims=True) + 1e-12)


def text_tower(p, ids):
    mask = ids > 0
    x = p["embed"][ids] + p["pos"]
    for bp in p["blocks"]:
        x = block(bp, x, mask)
    w = mask[..., None].astype(x.dtype)
    return unit((x * w).sum(1) / w.sum(1) @ p["head"])


def image_tower(p, img):
    b, n = img.shape[0], IMG // PATCH
    x = img.reshape(b, n, PATCH, n, PATCH, 3).transpose(0, 1, 3, 2, 4, 5).reshape(b, n * n, -1)
    x = x @ p["patch"] + p["pos"]
    for bp in p["blocks"]:
        x = block(bp, x)
    return unit(x.mean(1) @ p["head"])


def contrastive(params, img, ids):
    zt = text_tower(params["text"], ids)
    zi = image_tower(params["image"], img)
    logits = jnp.exp(params["scale"]) * zi @ zt.T
    rows = jnp.diagonal(jax.nn.log_softmax(logits, 1))
    cols = jnp.diagonal(jax.nn.log_softmax(logits, 0))
    return -(rows.mean() + cols.mean()) / 2


@partial(jax.jit, static_argnames="lr")
def train_step(params, velocity, img, ids, lr):
    loss, grads = jax.value_and_grad(contrastive)(params, img, ids)
    leaves, treedef = jax.tree.flatten(params)
    vel, gs = jax.tree.leaves(velocity), jax.tree.leaves(grads)
    for i in reversed(range(len(leaves))):
        vel[i] = 0.9 * vel[i] + gs[i]
        leaves[i] = leaves[i] - lr * vel[i]
    return treedef.unflatten(leaves), treedef.unflatten(vel), loss


def pairs(rng, n=6):
    cls = rng.integers(1, WORDS - LEN, (n,))
    img = (cls[:, None, None, None] / WORDS + 0.1 * rng.standard_normal((n, IMG, IMG, 3))).astype(np.float32)
    ids = (cls[:, None] + np.arange(LEN)).astype(np.int32)
    ids[:, 6:] *= rng.integers(0, 2, (n, 1)).astype(np.int32)
    return img, ids


if __name__ == "__main__":
    params = setup(jax.random.PRNGKey(9))
    velocity = jax.tree.map(jnp.zeros_like, params)
    rng = np.random.default_rng(9)
    for i in range(12):
        img, ids = pairs(rng)
        params, velocity, loss = train_step(params, velocity, img, ids, lr=0.02)
        if i % 4 == 0:
            print(f"step {i}: {float(loss):.4f}")
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w") as f:
            f.write(train_step.lower(params, velocity, img, ids, lr=0.02).as_text("hlo", debug_info=True))
