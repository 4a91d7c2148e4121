# Road-speed forecaster used by the routing service; parameters as named tuples.
import argparse
import collections

import jax
import jax.numpy as jnp
import numpy as np

NODES, HIDDEN, PAST, AHEAD, HOPS = 9, 12, 6, 3, 2

Layer = collections.namedtuple("Layer", ["kernel", "offset"])
Network = collections.namedtuple("Network", ["readout", "update_reset", "candidate"])


def build(seed):
    rng = np.random.default_rng(seed)

    def layer(fan_in, fan_out, start=0.0):
        kernel = rng.normal(size=(fan_in, fan_out)) * np.sqrt(2.0 / (fan_in + fan_out))
        return Layer(jnp.asarray(kernel, jnp.float32), jnp.full((fan_out,), start, jnp.float32))

    wide = (HOPS + 1) * (2 + HIDDEN)
    return Network(layer(HIDDEN, 1), layer(wide, 2 * HIDDEN, 1.0), layer(wide, HIDDEN))


def dense(layer, value):
    return value @ layer.kernel + layer.offset


class DiffusionGru:
    """Holds the road graph and unrolls the recurrence."""

    def __init__(self, network, roads):
        self.network, self.roads = network, roads

    def spread(self, value):
        stages, current = [value], value
        for _ in range(HOPS):
            current = jnp.einsum("nm,bmf->bnf", self.roads, current)
            stages.append(current)
        return jnp.concatenate(stages, axis=2)

    def advance(self, hidden, inputs):
        joined = self.spread(jnp.concatenate((inputs, hidden), axis=2))
        gates = jax.nn.sigmoid(dense(self.network.update_reset, joined))
        reset, update = jnp.split(gates, 2, axis=2)
        reset_hidden = self.spread(jnp.concatenate((inputs, reset * hidden), axis=2))
        candidate = jnp.tanh(dense(self.network.candidate, reset_hidden))
        return update * hidden + (1 - update) * candidate

    def __call__(self, history):
        hidden = jnp.zeros((history.shape[0], NODES, HIDDEN))
        for t in range(PAST):
            hidden = self.advance(hidden, history[:, t])
        inputs = history[:, -1]
        guesses = []
        while len(guesses) < AHEAD:
            hidden = self.advance(hidden, inputs)
            guess = dense(self.network.readout, hidden)
            inputs = jnp.concatenate((guess, inputs[..., 1:]), axis=2)
            guesses.append(guess)
        return jnp.stack(guesses, axis=1)[..., 0]


def error(network, roads, history, future):
    guess = DiffusionGru(network, roads)(history)
    present = (future > 0).astype(guess.dtype)
    return (jnp.abs(guess - future) * present).sum() / (present.sum() + 1e-5)


@jax.jit
def fit_batch(future, history, roads, network):
    value, slope = jax.value_and_grad(error)(network, roads, history, future)
    network = jax.tree.map(lambda w, d: w - 0.05 * d, network, slope)
    return value, network


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=2)
    options = parser.parse_args()
    rng = np.random.default_rng(5)
    roads = rng.random((NODES, NODES), dtype=np.float32)
    roads = roads / roads.sum(axis=1, keepdims=True)
    network = build(3)
    for _ in range(options.batches):
        history = rng.random((4, PAST, NODES, 2), dtype=np.float32)
        future = rng.random((4, AHEAD, NODES), dtype=np.float32)
        value, network = fit_batch(future, history, roads, network)
        print("mae", value)


if __name__ == "__main__":
    main()
