"""Character GRU: typed containers, optax for the update."""
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

VOCAB, EMBED, HIDDEN, BATCH, LENGTH = 30, 16, 24, 8, 10


class Readout(NamedTuple):
    kernel: jax.Array
    bias: jax.Array


class Cell(NamedTuple):
    gate_bias: jax.Array
    gate_input: jax.Array
    gate_hidden: jax.Array
    cand_bias: jax.Array
    cand_input: jax.Array
    cand_hidden: jax.Array


class Weights(NamedTuple):
    readout: Readout
    cell: Cell
    table: jax.Array


class TrainState(NamedTuple):
    opt: optax.OptState
    weights: Weights


def fan(key, shape):
    return jax.random.normal(key, shape) * (2.0 / sum(shape)) ** 0.5


def create(key):
    ks = jax.random.split(key, 6)
    table = jax.random.normal(ks[0], (VOCAB, EMBED)) * 0.1
    cell = Cell(
        gate_input=fan(ks[1], (EMBED, 2 * HIDDEN)),
        gate_hidden=fan(ks[2], (HIDDEN, 2 * HIDDEN)),
        gate_bias=jnp.zeros((2 * HIDDEN,)),
        cand_input=fan(ks[3], (EMBED, HIDDEN)),
        cand_hidden=fan(ks[4], (HIDDEN, HIDDEN)),
        cand_bias=jnp.zeros((HIDDEN,)),
    )
    return Weights(Readout(fan(ks[5], (HIDDEN, VOCAB)), jnp.zeros((VOCAB,))), cell, table)


def advance(cell: Cell, state, inp):
    pre = cell.gate_bias + (jnp.dot(inp, cell.gate_input) + jnp.dot(state, cell.gate_hidden))
    gates = jax.nn.sigmoid(pre)
    keep_new, reset = gates[:, :HIDDEN], gates[:, HIDDEN:]
    cand = jnp.tanh(cell.cand_bias + (jnp.dot(inp, cell.cand_input) + jnp.dot(reset * state, cell.cand_hidden)))
    return keep_new * cand + (1.0 - keep_new) * state


def run_cell(cell, inputs):
    def body(carry, inp):
        new = advance(cell, carry, inp)
        return new, new

    start = jnp.zeros((inputs.shape[1], HIDDEN))
    return jax.lax.scan(body, start, inputs)[1]


def masked_nll(w: Weights, tokens, targets):
    inputs = w.table[tokens]
    hidden = jnp.transpose(run_cell(w.cell, jnp.transpose(inputs, (1, 0, 2))), (1, 0, 2))
    scores = w.readout.bias + jnp.einsum("bth,hv->btv", hidden, w.readout.kernel)
    nll = optax.softmax_cross_entropy_with_integer_labels(scores, targets)
    valid = jnp.where(targets > 0, 1.0, 0.0)
    return jnp.sum(valid * nll) / jnp.maximum(jnp.sum(valid), 1.0)


tx = optax.chain(optax.add_decayed_weights(1e-3), optax.trace(decay=0.9), optax.scale(-0.1))


@jax.jit
def train_step(targets, tokens, state):
    value, grads = jax.value_and_grad(masked_nll)(state.weights, tokens, targets)
    updates, opt = tx.update(grads, state.opt, state.weights)
    return value, TrainState(opt, optax.apply_updates(state.weights, updates))


def stream(seed):
    r = np.random.default_rng(seed)
    while True:
        start = r.integers(1, VOCAB, (BATCH, 1))
        stride = r.integers(1, 4, (BATCH, 1))
        s = (start + stride * np.arange(LENGTH + 1)[None]) % VOCAB
        yield s[:, :-1].astype(np.int32), s[:, 1:].astype(np.int32)


def main():
    weights = create(jax.random.PRNGKey(3))
    state = TrainState(tx.init(weights), weights)
    curve = []
    for step, (tokens, targets) in zip(range(5), stream(8)):
        value, state = train_step(targets, tokens, state)
        curve.append(float(value))
        print(step, "%.6f" % curve[-1])
    return curve, state.weights


if __name__ == "__main__":
    main()
