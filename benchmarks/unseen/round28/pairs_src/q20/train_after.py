"""Next-symbol GRU, rewritten around a couple of NamedTuples."""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Gate(NamedTuple):
    bias: jax.Array
    rec: jax.Array
    inp: jax.Array


class Weights(NamedTuple):
    readout: jax.Array
    readout_bias: jax.Array
    candidate: Gate
    reset: Gate
    update: Gate
    table: jax.Array


class Hyper(NamedTuple):
    vocab: int = 20
    emb: int = 12
    hidden: int = 16
    batch: int = 4
    length: int = 9
    lr: float = 0.1
    momentum: float = 0.9


def make_weights(hp, seed=0):
    keys = jax.random.split(jax.random.PRNGKey(seed), 8)

    def draw(k, *shape):
        return jax.random.normal(k, shape) * np.sqrt(2.0 / sum(shape)).astype(np.float32)

    def gate(ki, kr):
        return Gate(jnp.zeros(hp.hidden), draw(kr, hp.hidden, hp.hidden), draw(ki, hp.emb, hp.hidden))

    return Weights(
        table=draw(keys[0], hp.vocab, hp.emb),
        update=gate(keys[1], keys[2]),
        reset=gate(keys[3], keys[4]),
        candidate=gate(keys[5], keys[6]),
        readout=draw(keys[7], hp.hidden, hp.vocab),
        readout_bias=jnp.zeros(hp.vocab),
    )


def pre(gate: Gate, x, h):
    from_state = jnp.einsum("bi,ij->bj", h, gate.rec)
    from_input = jnp.einsum("bi,ij->bj", x, gate.inp)
    return from_input + from_state + gate.bias


def gru(w: Weights, state, x):
    r = jax.nn.sigmoid(pre(w.reset, x, state))
    u = jax.nn.sigmoid(pre(w.update, x, state))
    c = jnp.tanh(pre(w.candidate, x, state * r))
    new = c * u + state * (1.0 - u)
    return new, new


def cross_entropy(w: Weights, tokens, hp: Hyper):
    source, target = tokens[:, :-1], tokens[:, 1:]
    embedded = w.table[source.T]
    h0 = jnp.zeros((tokens.shape[0], hp.hidden))
    _, states = jax.lax.scan(partial(gru, w), h0, embedded)
    logits = jnp.einsum("tbh,hv->tbv", states, w.readout) + w.readout_bias
    lse = jax.nn.logsumexp(logits, axis=-1)
    hit = jnp.take_along_axis(logits, target.T[:, :, None], axis=2).squeeze(2)
    return jnp.mean(lse - hit)


@partial(jax.jit, static_argnames="hp")
def train_step(tokens, weights, velocity, hp):
    value, grads = jax.value_and_grad(cross_entropy)(weights, tokens, hp)
    norm = jnp.sqrt(jax.tree.reduce(lambda acc, g: acc + jnp.vdot(g, g), grads, 0.0))
    velocity = jax.tree.map(lambda m, g: g + m * hp.momentum, velocity, grads)
    weights = jax.tree.map(lambda w, m: w - m * hp.lr, weights, velocity)
    return value, norm, velocity, weights


def sequences(hp, n, seed=1):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        first = rng.integers(0, hp.vocab, (hp.batch, 1))
        stride = rng.integers(1, 4, (hp.batch, 1))
        yield ((first + stride * np.arange(hp.length)) % hp.vocab).astype(np.int32)


def main(hp=Hyper()):
    weights = make_weights(hp)
    velocity = jax.tree.map(jnp.zeros_like, weights)
    for tokens in sequences(hp, 5):
        value, norm, velocity, weights = train_step(tokens, weights, velocity, hp)
        print("loss %.6f grad norm %.6f" % (value, norm))
    total = sum(float(np.abs(np.asarray(x, np.float64)).sum()) for x in jax.tree.leaves(weights))
    print("checksum %.8f" % total)


if __name__ == "__main__":
    main()
