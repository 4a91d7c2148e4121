"""GRU next-note model."""
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Config(NamedTuple):
    num_notes: int = 24
    hidden: int = 20
    emb_dim: int = 12
    length: int = 10
    batch: int = 8
    learning_rate: float = 3e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8


class Params(NamedTuple):
    readout: jax.Array
    readout_bias: jax.Array
    recurrent: jax.Array
    gate_bias: jax.Array
    input_proj: jax.Array
    note_table: jax.Array


class AdamState(NamedTuple):
    step: jax.Array
    nu: Params
    mu: Params


class TrainState(NamedTuple):
    opt: AdamState
    params: Params


CFG = Config()


def init_params(key, cfg):
    k = jax.random.split(key, 5)
    table = 0.1 * jax.random.normal(k[0], (cfg.num_notes, cfg.emb_dim))
    proj = jax.random.normal(k[1], (cfg.emb_dim, 3 * cfg.hidden)) / np.sqrt(cfg.emb_dim)
    rec = jax.random.normal(k[2], (cfg.hidden, 3 * cfg.hidden)) / np.sqrt(cfg.hidden)
    out = jax.random.normal(k[3], (cfg.hidden, cfg.num_notes)) / np.sqrt(cfg.hidden)
    return Params(out, jnp.zeros(cfg.num_notes), rec, jnp.zeros(3 * cfg.hidden), proj, table)


def run_gru(params, inputs, cfg):
    """inputs [T, B, E] -> states [T, B, H]"""
    def tick(state, inp):
        rec = state @ params.recurrent
        ext = inp @ params.input_proj + params.gate_bias
        h = cfg.hidden
        update = jax.nn.sigmoid(ext[:, :h] + rec[:, :h])
        reset = jax.nn.sigmoid(ext[:, h:2 * h] + rec[:, h:2 * h])
        cand = jnp.tanh(ext[:, 2 * h:] + reset * rec[:, 2 * h:])
        state = update * state + (1.0 - update) * cand
        return state, state

    zero = jnp.zeros((inputs.shape[1], cfg.hidden))
    return jax.lax.scan(tick, zero, inputs)[1]


def batch_loss(params, songs, cfg=CFG):
    tokens, targets = songs[:, :-1].T, songs[:, 1:].T
    states = run_gru(params, params.note_table[tokens], cfg)
    logits = jnp.einsum("tbh,hn->tbn", states, params.readout) + params.readout_bias
    log_z = jax.nn.logsumexp(logits, axis=-1)
    picked = jnp.take_along_axis(logits, targets[..., None], axis=-1).squeeze(-1)
    return (log_z - picked).mean()


@jax.jit
def update(songs, state):
    value, grads = jax.value_and_grad(batch_loss)(state.params, songs)
    step = 1 + state.opt.step
    t = step.astype(jnp.float32)
    nu = jax.tree.map(lambda n, g: CFG.beta2 * n + (1 - CFG.beta2) * jnp.square(g), state.opt.nu, grads)
    mu = jax.tree.map(lambda u, g: CFG.beta1 * u + (1 - CFG.beta1) * g, state.opt.mu, grads)
    bias2, bias1 = 1 - CFG.beta2**t, 1 - CFG.beta1**t

    def apply(p, u, n):
        return p - CFG.learning_rate * (u / bias1) / (jnp.sqrt(n / bias2) + CFG.eps)

    params = jax.tree.map(apply, state.params, mu, nu)
    return value, TrainState(AdamState(step, nu, mu), params)


def make_songs(rng, cfg):
    start = rng.integers(0, cfg.num_notes, (cfg.batch, 1))
    step = rng.integers(1, 4, (cfg.batch, 1))
    return ((start + step * np.arange(cfg.length + 1)) % cfg.num_notes).astype(np.int32)


def main(steps=5, on_step=None):
    rng = np.random.default_rng(0)
    params = init_params(jax.random.key(0), CFG)
    zeros = jax.tree.map(jnp.zeros_like, params)
    state = TrainState(AdamState(jnp.zeros((), jnp.int32), zeros, zeros), params)
    for i in range(steps):
        songs = make_songs(rng, CFG)
        if on_step is not None:
            on_step(i, update, (songs, state))
        value, state = update(songs, state)
        print(i, float(value))


if __name__ == "__main__":
    main()
