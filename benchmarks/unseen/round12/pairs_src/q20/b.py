"""LSTM autoencoder for sensor windows, after the move to a small class library."""
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(frozen=True)
class Recurrent:
    inputs: int
    units: int
    name: str

    def init(self, draw):
        return {"bias": jnp.zeros(4 * self.units), "recurrent": draw(self.units, 4 * self.units),
                "weights": draw(self.inputs, 4 * self.units)}

    def __call__(self, weights, sequence):
        def time_step(state, frame):
            hidden, memory = state
            gates = frame @ weights["weights"] + hidden @ weights["recurrent"] + weights["bias"]
            write, forget, content, read = jnp.split(gates, 4, axis=-1)
            memory = jax.nn.sigmoid(forget + 1.0) * memory + jax.nn.sigmoid(write) * jnp.tanh(content)
            hidden = jax.nn.sigmoid(read) * jnp.tanh(memory)
            return (hidden, memory), hidden

        with jax.named_scope(self.name):
            empty = jnp.zeros((sequence.shape[1], self.units))
            (final, _), outputs = jax.lax.scan(time_step, (empty, empty), sequence)
        return final, outputs


@dataclasses.dataclass(frozen=True)
class Autoencoder:
    features: int = 4
    units: int = 16
    bottleneck: int = 6
    window: int = 10

    @property
    def parts(self):
        return {"decoder": Recurrent(self.bottleneck, self.units, "decoder"),
                "encoder": Recurrent(self.features, self.units, "encoder"),
                "encoder_top": Recurrent(self.units, self.units, "encoder_top")}

    def init(self, key):
        keys = iter(jax.random.split(key, 16))

        def draw(rows, cols):
            return jax.random.uniform(next(keys), (rows, cols), minval=-1, maxval=1) / np.sqrt(rows)

        affine = lambda i, o: {"bias": jnp.zeros(o), "weights": draw(i, o)}
        tree = {"bottleneck": affine(self.units, self.bottleneck)}
        tree.update({name: part.init(draw) for name, part in self.parts.items()})
        tree["readout"] = affine(self.units, self.features)
        return tree

    def __call__(self, weights, signal):
        parts = self.parts
        sequence = signal.swapaxes(0, 1)
        _, outputs = parts["encoder"](weights["encoder"], sequence)
        final, _ = parts["encoder_top"](weights["encoder_top"], outputs)
        with jax.named_scope("bottleneck"):
            code = jnp.tanh(final @ weights["bottleneck"]["weights"] + weights["bottleneck"]["bias"])
        _, outputs = parts["decoder"](weights["decoder"], jnp.broadcast_to(code, (self.window, *code.shape)))
        with jax.named_scope("readout"):
            rebuilt = (outputs @ weights["readout"]["weights"] + weights["readout"]["bias"]).swapaxes(0, 1)
        return rebuilt, code


MODEL = Autoencoder()


def robust(residual):
    size = jnp.abs(residual)
    return jnp.where(size < 1.0, 0.5 * residual * residual, size - 0.5)


def objective(weights, signal):
    rebuilt, code = MODEL(weights, signal)
    return robust(rebuilt - signal).mean() + 1e-3 * jnp.square(code).mean()


def bounded(tree, limit):
    total = jnp.sqrt(sum(jnp.square(leaf).sum() for leaf in jax.tree.leaves(tree)))
    return jax.tree.map(lambda leaf: leaf * jnp.minimum(1.0, limit / (total + 1e-6)), tree), total


@jax.jit
def autoencoder_update(weights, momentum, rate, signal):
    value, slope = jax.value_and_grad(objective)(weights, signal)
    slope, total = bounded(slope, 1.0)
    momentum = jax.tree.map(lambda m, s: 0.9 * m - rate * s, momentum, slope)
    weights = jax.tree.map(jnp.add, weights, momentum)
    return weights, momentum, value, total


train_step = autoencoder_update


def windows(rng, batch=8):
    t = np.arange(MODEL.window) + rng.uniform(0, 20, (batch, 1))
    x = np.stack([np.sin(t * f) for f in (0.3, 0.7, 1.1, 1.9)], -1)
    return jnp.asarray(x + 0.05 * rng.standard_normal(x.shape), jnp.float32)


def example_args():
    weights = MODEL.init(jax.random.key(0))
    return weights, jax.tree.map(jnp.zeros_like, weights), jnp.float32(0.05), windows(np.random.default_rng(0))


if __name__ == "__main__":
    rng = np.random.default_rng(8)
    weights, momentum, rate, _ = example_args()
    for i in range(20):
        weights, momentum, value, total = train_step(weights, momentum, rate * 0.98 ** i, windows(rng))
        if i % 5 == 0:
            print(i, float(value), float(total))
