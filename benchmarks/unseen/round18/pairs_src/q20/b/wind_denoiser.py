"""Wind-field denoiser.

Rewritten for the new trainer: the state is one pytree, gradients of the stages
are written as a list of callables and the batch travels as a dictionary.
"""
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class Spec:
    channels: int = 8
    grid: int = 12
    batch: int = 3
    stages: int = 3
    decay: float = 0.95
    rate: float = 1e-4


def draw(rng, *shape):
    fan = int(np.prod(shape[:-1]))
    return jnp.asarray(rng.normal(size=shape) / np.sqrt(fan), jnp.float32)


def new_state(spec, seed):
    rng = np.random.default_rng(seed)
    c = spec.channels
    weights = {"z_input": {"kernel": draw(rng, 3, 3, 2, c), "bias": jnp.zeros(c)},
               "a_output": {"kernel": draw(rng, 3, 3, c, 2), "bias": jnp.zeros(2)}}
    for n in range(spec.stages):
        weights[f"stage{n}"] = {
            "time": draw(rng, 4, c), "gain": jnp.ones(c),
            "second": {"kernel": draw(rng, 3, 3, c, c), "bias": jnp.zeros(c)},
            "first": {"kernel": draw(rng, 3, 3, c, c), "bias": jnp.zeros(c)},
        }
    return {"weights": weights, "moving": jax.tree.map(jnp.zeros_like, weights)}


def convolve(layer, image):
    dims = ("NHWC", "HWIO", "NHWC")
    out = jax.lax.conv_general_dilated(image, layer["kernel"], window_strides=(1, 1), padding="SAME",
                                       dimension_numbers=dims)
    return out + layer["bias"]


def normalise(image, gain):
    n, rows, cols, c = image.shape
    split = image.reshape(n, rows, cols, 2, c // 2)
    centre = split.mean(axis=(1, 2, 4), keepdims=True)
    centred = split - centre
    spread = (jnp.square(split - centre)).mean(axis=(1, 2, 4), keepdims=True)
    return (centred / jnp.sqrt(spread + 1e-5)).reshape(image.shape) * gain


def embed(level):
    log = jnp.log(level)[:, None]
    double = 2 * log
    return jnp.concatenate([jnp.sin(log), jnp.cos(log), jnp.sin(double), jnp.cos(double)], axis=-1)


def network(spec, weights, image, level):
    hidden = convolve(weights["z_input"], image)
    code = embed(level)
    for n in range(spec.stages):
        w = weights[f"stage{n}"]
        inner = jax.nn.silu(convolve(w["first"], normalise(hidden, w["gain"])))
        inner = inner + jnp.dot(code, w["time"])[:, None, None, :]
        hidden = hidden + convolve(w["second"], inner)
    return convolve(weights["a_output"], hidden) / level[:, None, None, None]


def objective(weights, spec, batch):
    level = batch["level"]
    wide = level[:, None, None, None]
    noisy = batch["field"] + wide * batch["jitter"]
    error = wide * network(spec, weights, noisy, level) + batch["jitter"]
    return 0.5 * (error ** 2).sum(axis=(1, 2, 3)).mean()


def make_trainer(spec):
    @jax.jit
    def advance(batch, state):
        value, grads = jax.value_and_grad(objective)(state["weights"], spec, batch)
        moving = jax.tree.map(lambda old, new: spec.decay * old + new, state["moving"], grads)
        weights = jax.tree.map(lambda w, d: w - spec.rate * d, state["weights"], moving)
        return {"loss": value, "state": {"weights": weights, "moving": moving}}

    return advance


def main():
    spec = Spec()
    state, advance = new_state(spec, 8), make_trainer(spec)
    rng = np.random.default_rng(9)
    for _ in range(2):
        field = rng.normal(size=(spec.batch, spec.grid, spec.grid, 2)).astype(np.float32)
        batch = {"field": field, "jitter": rng.normal(size=field.shape).astype(np.float32),
                 "level": np.exp(rng.uniform(-3, 1, spec.batch)).astype(np.float32)}
        result = advance(batch, state)
        state = result["state"]
        print(float(result["loss"]))


if __name__ == "__main__":
    main()
