"""Tiny MLP-Mixer: parameters are plain dicts, layers are functions."""
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

PATCHES, CHANNELS, CLASSES, BATCH = 9, 12, 4, 8
DEPTH, TOKEN_HIDDEN, CHANNEL_HIDDEN = 2, 16, 24

optimizer = optax.chain(
    optax.clip(0.2),
    optax.add_decayed_weights(1e-4),
    optax.trace(decay=0.9, nesterov=True),
    optax.scale(-0.05),
)


class Learner(NamedTuple):
    opt_state: Any
    step: jax.Array
    weights: Any


def affine(w, x):
    return jnp.einsum("...i,io->...o", x, w["matrix"]) + w["offset"]


@jax.jit
def layer_norm(w, x):
    mu = x.mean(-1)
    mu2 = jax.lax.square(x).mean(-1)
    var = jnp.maximum(0.0, mu2 - jax.lax.square(mu))
    gain = jax.lax.rsqrt(var[..., None] + 1e-6) * w["gain"]
    return (x - mu[..., None]) * gain + w["shift"]


def mlp(w, x):
    return affine(w["b_out"], jax.nn.gelu(affine(w["a_in"], x)))


def mixer_layer(w, x):
    tokens = layer_norm(w["norm_tokens"], x).transpose(0, 2, 1)
    x = x + mlp(w["tokens"], tokens).transpose(0, 2, 1)
    return x + mlp(w["channels"], layer_norm(w["norm_channels"], x))


def apply(weights, images):
    x = affine(weights["patch_embed"], images)
    for layer in weights["layers"]:
        x = mixer_layer(layer, x)
    x = layer_norm(weights["final_norm"], x)
    return affine(weights["classifier"], x.mean(1))


def objective(weights, images, labels):
    logits = apply(weights, images)
    target = jax.nn.one_hot(labels, CLASSES)
    return optax.losses.softmax_cross_entropy(logits, target).mean(), logits


@jax.jit
def fit_batch(labels, images, learner):
    grad_fn = jax.value_and_grad(objective, has_aux=True)
    (loss, logits), grads = grad_fn(learner.weights, images, labels)
    hits = logits.argmax(-1) == labels
    updates, opt_state = optimizer.update(grads, learner.opt_state, learner.weights)
    weights = optax.apply_updates(learner.weights, updates)
    return hits.mean(), loss, Learner(opt_state, learner.step + 1, weights)


def new_affine(key, n_in, n_out):
    init = jax.nn.initializers.lecun_normal()
    return {"matrix": init(key, (n_in, n_out)), "offset": jnp.zeros(n_out)}


def new_norm(n):
    return {"gain": jnp.ones(n), "shift": jnp.zeros(n)}


def new_weights(key):
    def mlp_weights(k, n, hidden):
        k1, k2 = jax.random.split(k)
        return {"a_in": new_affine(k1, n, hidden), "b_out": new_affine(k2, hidden, n)}

    ks = jax.random.split(key, 2 + 2 * DEPTH)
    layers = [
        {
            "tokens": mlp_weights(ks[2 * i], PATCHES, TOKEN_HIDDEN),
            "channels": mlp_weights(ks[2 * i + 1], CHANNELS, CHANNEL_HIDDEN),
            "norm_tokens": new_norm(CHANNELS),
            "norm_channels": new_norm(CHANNELS),
        }
        for i in range(DEPTH)
    ]
    return {
        "patch_embed": new_affine(ks[-1], 12, CHANNELS),
        "layers": layers,
        "final_norm": new_norm(CHANNELS),
        "classifier": new_affine(ks[-2], CHANNELS, CLASSES),
    }


def main():
    key = jax.random.PRNGKey(8)
    weights = new_weights(key)
    learner = Learner(optimizer.init(weights), jnp.int32(0), weights)
    protos = jax.random.normal(jax.random.fold_in(key, 99), (CLASSES, PATCHES, 12))
    for i in range(5):
        k1, k2 = jax.random.split(jax.random.fold_in(key, i))
        labels = jax.random.randint(k1, (BATCH,), 0, CLASSES)
        images = protos[labels] + jax.random.normal(k2, (BATCH, PATCHES, 12))
        accuracy, loss, learner = fit_batch(labels, images, learner)
        print(i, float(loss), float(accuracy))


if __name__ == "__main__":
    main()
