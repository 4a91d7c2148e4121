"""River stage reconstruction from rain gauges with a gated recurrent cell."""
import argparse
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Cell(NamedTuple):
    wx: jax.Array
    wh: jax.Array
    b: jax.Array


class Net(NamedTuple):
    cell: Cell
    mix: jax.Array
    mix_b: jax.Array
    read: jax.Array
    read_b: jax.Array


class AdamState(NamedTuple):
    count: jax.Array
    mu: Net
    nu: Net


HOURS, GAUGES, WIDTH, BASINS = 36, 5, 20, 8


def create(rng):
    g = lambda *s: jnp.asarray(rng.normal(0, 1 / np.sqrt(s[0]), s), jnp.float32)
    cell = Cell(g(GAUGES, 3 * WIDTH), g(WIDTH, 3 * WIDTH), jnp.zeros(3 * WIDTH))
    return Net(cell, g(WIDTH, WIDTH), jnp.zeros(WIDTH), g(WIDTH, 1), jnp.zeros(1))


def gru(cell, h, x):
    zx, rx, cx = jnp.split(x @ cell.wx + cell.b, 3, axis=-1)
    zh, rh, ch = jnp.split(h @ cell.wh, 3, axis=-1)
    z, r = jax.nn.sigmoid(zx + zh), jax.nn.sigmoid(rx + rh)
    h = z * h + (1 - z) * jnp.tanh(cx + r * ch)
    return h, h


def stage(net, rain):
    """rain: hours, basins, gauges -> hours, basins"""
    start = jnp.zeros((rain.shape[1], WIDTH), rain.dtype)
    _, hs = jax.lax.scan(lambda h, x: gru(net.cell, h, x), start, rain)
    hs = jax.nn.softplus(hs @ net.mix + net.mix_b)
    return (hs @ net.read + net.read_b)[..., 0]


def nash_sutcliffe(net, rain, level):
    sim = stage(net, rain)
    num = jnp.square(sim - level).sum(0)
    den = jnp.square(level - level.mean(0)).sum(0) + 0.1
    return (num / den).mean()


def adam(state, grads, net, lr, b1=0.9, b2=0.99, eps=1e-7):
    count = state.count + 1
    mu = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.mu, grads)
    nu = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state.nu, grads)
    t = count.astype(jnp.float32)
    scale = lr * jnp.sqrt(1 - b2 ** t) / (1 - b1 ** t)
    net = jax.tree.map(lambda p, m, v: p - scale * m / (jnp.sqrt(v) + eps), net, mu, nu)
    return net, AdamState(count, mu, nu)


@jax.jit
def train_step(net, opt, rain, level):
    loss, grads = jax.value_and_grad(nash_sutcliffe)(net, rain, level)
    net, opt = adam(opt, grads, net, 5e-3)
    return net, opt, loss


def storms(rng):
    rain = rng.gamma(0.3, 2.0, (HOURS, BASINS, GAUGES)).astype(np.float32)
    level = np.zeros((HOURS, BASINS), np.float32)
    store = np.zeros(BASINS, np.float32)
    for t in range(HOURS):
        store = 0.85 * store + rain[t].mean(-1)
        level[t] = np.sqrt(store)
    return rain, level


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--hlo")
    ap.add_argument("--steps", type=int, default=60)
    a = ap.parse_args()
    rng = np.random.default_rng(7)
    net = create(rng)
    zeros = jax.tree.map(jnp.zeros_like, net)
    opt = AdamState(jnp.zeros((), jnp.int32), zeros, zeros)
    if a.hlo:
        lowered = train_step.lower(net, opt, *storms(rng))
        open(a.hlo, "w").write(lowered.as_text(dialect="hlo"))
        return
    for i in range(a.steps):
        net, opt, loss = train_step(net, opt, *storms(rng))
        if i % 20 == 19:
            print(f"{i + 1} 1-NSE {float(loss):.4f}")


if __name__ == "__main__":
    main()
