"""Small mixture-density RNN, plain JAX (no module classes)."""
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax


class Cell(NamedTuple):
    w_cand_h: jax.Array
    w_cand_x: jax.Array
    b_cand: jax.Array
    w_gate_h: jax.Array
    w_gate_x: jax.Array
    b_gate: jax.Array


class Net(NamedTuple):
    w_out: jax.Array
    b_out: jax.Array
    cell: Cell


class State(NamedTuple):
    opt: optax.OptState
    net: Net


def init_net(key, n_in=1, hidden=16, n_mix=3):
    ks = jax.random.split(key, 5)
    dense = jax.nn.initializers.lecun_normal()
    cell = Cell(
        w_cand_h=dense(ks[0], (hidden, hidden)),
        w_cand_x=dense(ks[1], (n_in, hidden)),
        b_cand=jnp.zeros(hidden),
        w_gate_h=dense(ks[2], (hidden, hidden)),
        w_gate_x=dense(ks[3], (n_in, hidden)),
        b_gate=jnp.zeros(hidden),
    )
    return Net(dense(ks[4], (hidden, 3 * n_mix)), jnp.zeros(3 * n_mix), cell)


def affine(x, w, b):
    return jnp.einsum("...i,ij->...j", x, w) + b


def rnn_step(cell, carry, inp):
    gate = jax.nn.sigmoid(carry @ cell.w_gate_h + affine(inp, cell.w_gate_x, cell.b_gate))
    reset = gate * carry
    cand = jnp.tanh(reset @ cell.w_cand_h + affine(inp, cell.w_cand_x, cell.b_cand))
    new = gate * cand + (1.0 - gate) * carry
    return new, new


def mixture_params(net, series):
    start = jnp.zeros((series.shape[0], net.cell.b_gate.shape[0]))
    time_major = jnp.swapaxes(series, 0, 1)
    _, states = jax.lax.scan(functools.partial(rnn_step, net.cell), start, time_major)
    raw = affine(jnp.swapaxes(states, 0, 1), net.w_out, net.b_out)
    n_mix = raw.shape[-1] // 3
    return raw[..., :n_mix], raw[..., n_mix : 2 * n_mix], raw[..., 2 * n_mix :]


def log_normal(v, mean, log_scale):
    half_log_2pi = 0.9189385332046727
    standardized = (v - mean) / jnp.exp(log_scale)
    return -0.5 * jnp.square(standardized) - log_scale - half_log_2pi


def negative_log_likelihood(net, series, target):
    weights, mean, log_scale = mixture_params(net, series)
    log_scale = jnp.minimum(jnp.maximum(log_scale, -4.0), 2.0)
    weights = weights - jax.nn.logsumexp(weights, axis=-1, keepdims=True)
    joint = weights + log_normal(jnp.expand_dims(target, -1), mean, log_scale)
    return -jax.nn.logsumexp(joint, axis=-1).mean()


OPTIM = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-3))


@jax.jit
def update(target, series, state):
    value, grad = jax.value_and_grad(negative_log_likelihood)(state.net, series, target)
    delta, opt = OPTIM.update(grad, state.opt, state.net)
    return value, State(opt, optax.apply_updates(state.net, delta))


def waves(rng):
    t = rng.uniform(0, 3, size=(8, 1)) + np.arange(10)[None] * 0.3
    s = np.sin(t) + 0.1 * rng.normal(size=t.shape)
    return jnp.asarray(s[:, :-1, None], jnp.float32), jnp.asarray(s[:, 1:], jnp.float32)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    waves(rng)
    net = init_net(jax.random.PRNGKey(0))
    state = State(OPTIM.init(net), net)
    for i in range(3):
        series, target = waves(rng)
        value, state = update(target, series, state)
        print(i, "%.6f" % float(value))
