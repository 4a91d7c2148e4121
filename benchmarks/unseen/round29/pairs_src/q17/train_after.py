"""Character LSTM with RMSprop; state in NamedTuples, gates as a small struct."""
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

VOCAB = 24
HIDDEN = 20
SEQ = 10
BATCH = 5
LR, RHO, EPS, CLIP = 3e-3, 0.9, 1e-6, 1.0


class Gate(NamedTuple):
    bias: jax.Array
    recurrent: jax.Array
    kernel: jax.Array

    def __call__(self, x, h):
        pre = jnp.einsum("h,hk->k", h, self.recurrent)
        return jnp.einsum("e,ek->k", x, self.kernel) + pre + self.bias


class Model(NamedTuple):
    proj_kernel: jax.Array
    proj_bias: jax.Array
    out_gate: Gate
    candidate: Gate
    forget_gate: Gate
    in_gate: Gate
    table: jax.Array

    def run(self, ids):
        """Logits for one sequence of ids."""

        def tick(state, x):
            cell, hidden = state
            keep = jax.nn.sigmoid(self.forget_gate(x, hidden))
            write = jax.nn.sigmoid(self.in_gate(x, hidden))
            cell = keep * cell + write * jnp.tanh(self.candidate(x, hidden))
            hidden = jnp.tanh(cell) * jax.nn.sigmoid(self.out_gate(x, hidden))
            return (cell, hidden), hidden

        start = jnp.zeros(HIDDEN)
        _, hidden = jax.lax.scan(tick, (start, start), self.table[ids])
        return jnp.einsum("th,hv->tv", hidden, self.proj_kernel) + self.proj_bias


class TrainState(NamedTuple):
    square: Model
    model: Model


def create(key):
    k = jax.random.split(key, 11)
    glorot = lambda kk, i, o: jax.random.normal(kk, (i, o)) * np.sqrt(2.0 / (i + o))
    mk = lambda n, b: Gate(jnp.full(HIDDEN, b), glorot(k[5 + n], HIDDEN, HIDDEN), glorot(k[1 + n], HIDDEN, HIDDEN))
    model = Model(
        proj_kernel=glorot(k[9], HIDDEN, VOCAB),
        proj_bias=jnp.zeros(VOCAB),
        out_gate=mk(3, 0.0),
        candidate=mk(2, 0.0),
        forget_gate=mk(1, 1.0),
        in_gate=mk(0, 0.0),
        table=jax.random.normal(k[0], (VOCAB, HIDDEN)) * 0.1,
    )
    return TrainState(jax.tree.map(jnp.zeros_like, model), model)


def sequence_nll(model, ids, nxt):
    scores = model.run(ids)
    logp = scores - jax.scipy.special.logsumexp(scores, axis=-1, keepdims=True)
    return -jnp.einsum("tv,tv->t", logp, jax.nn.one_hot(nxt, VOCAB))


def batch_loss(model, ids, nxt):
    return jax.vmap(sequence_nll, in_axes=(None, 0, 0))(model, ids, nxt).mean()


@jax.jit
def train_step(nxt, ids, state):
    loss, grad = jax.value_and_grad(batch_loss)(state.model, ids, nxt)
    sq = jax.tree.reduce(lambda s, g: s + jnp.vdot(g, g), grad, 0.0)
    shrink = jnp.minimum(CLIP / (jnp.sqrt(sq) + 1e-6), 1.0)

    def leaf(w, s, g):
        g = shrink * g
        s = (1 - RHO) * jnp.square(g) + RHO * s
        return w - (LR * g) / jnp.sqrt(s + EPS), s

    both = jax.tree.map(leaf, state.model, state.square, grad)
    model, square = jax.tree.transpose(jax.tree.structure(grad), jax.tree.structure((0, 0)), both)
    return loss, TrainState(square, model)


def stream(n, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        start = rng.integers(0, VOCAB, (BATCH, 1))
        stride = rng.integers(1, 4, (BATCH, 1))
        seq = (start + stride * np.arange(SEQ + 1)) % VOCAB
        yield seq[:, 1:].astype(np.int32), seq[:, :-1].astype(np.int32)


if __name__ == "__main__":
    state = create(jax.random.PRNGKey(0))
    for i, (nxt, ids) in enumerate(stream(6)):
        loss, state = train_step(nxt, ids, state)
        print(i, f"{float(loss):.5f}")
