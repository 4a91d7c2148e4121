"""River-level nowcasting: stacked LSTM over gauge readings, quantile outputs."""
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

GAUGES, HIDDEN, QUANTILES = 5, 12, (0.1, 0.5, 0.9)


class Cell(NamedTuple):
    wx: jax.Array
    wh: jax.Array
    b: jax.Array


class Model(NamedTuple):
    cells: tuple
    out_w: jax.Array
    out_b: jax.Array


class AdamState(NamedTuple):
    count: jax.Array
    m: Model
    v: Model


def glorot(key, shape):
    return jax.random.normal(key, shape) / np.sqrt(shape[0])


def create(key, depth=2):
    cells, width = [], GAUGES
    for k in jax.random.split(key, depth):
        k1, k2 = jax.random.split(k)
        cells.append(Cell(glorot(k1, (width, 4 * HIDDEN)), glorot(k2, (HIDDEN, 4 * HIDDEN)), jnp.zeros(4 * HIDDEN)))
        width = HIDDEN
    return Model(tuple(cells), glorot(key, (HIDDEN, len(QUANTILES))), jnp.zeros(len(QUANTILES)))


def lstm(cell, xs):
    def step(carry, x):
        h, c = carry
        i, f, g, o = jnp.split(x @ cell.wx + h @ cell.wh + cell.b, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((xs.shape[1], HIDDEN))
    _, hs = jax.lax.scan(step, (zero, zero), xs)
    return hs


def predict(model, xs):
    h = xs
    for cell in model.cells:
        h = lstm(cell, h)
    return h[-1] @ model.out_w + model.out_b


def pinball(model, xs, y):
    err = y[:, None] - predict(model, xs)
    q = jnp.asarray(QUANTILES)
    return jnp.mean(jnp.maximum(q * err, (q - 1) * err))


@jax.jit
def update(model, opt, xs, y, lr):
    loss, grads = jax.value_and_grad(pinball)(model, xs, y)
    count = opt.count + 1
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, opt.m, grads)
    v = jax.tree.map(lambda a, g: 0.999 * a + 0.001 * g * g, opt.v, grads)
    fix1, fix2 = 1 - 0.9 ** count, 1 - 0.999 ** count
    model = jax.tree.map(lambda p, a, b: p - lr * (a / fix1) / (jnp.sqrt(b / fix2) + 1e-8), model, m, v)
    return model, AdamState(count, m, v), loss


def gauges(rng, batch=8, length=10):
    t = rng.uniform(0, 50, (1, batch, 1)) + np.arange(length + 1)[:, None, None]
    lag = np.arange(GAUGES)[None, None]
    series = np.sin(0.3 * (t - lag)) + 0.1 * rng.normal(size=(length + 1, batch, GAUGES))
    return jnp.asarray(series[:-1], jnp.float32), jnp.asarray(series[-1, :, 0], jnp.float32)


def main(steps=30):
    rng = np.random.default_rng(2)
    model = create(jax.random.key(0))
    zeros = jax.tree.map(jnp.zeros_like, model)
    opt = AdamState(jnp.zeros((), jnp.float32), zeros, zeros)
    for step in range(steps):
        lr = 5e-3 * min(1.0, (step + 1) / 10)
        model, opt, loss = update(model, opt, *gauges(rng), lr)
    print("pinball", float(loss))


if __name__ == "__main__":
    main()
