"""Unconditional handwriting model (LSTM + mixture density output), micro-batched in JAX."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

HID, MIX, LEN = 16, 3, 12


def init(key):
    k = jax.random.split(key, 4)
    out = 6 * MIX + 1
    return {
        "lstm": {"wx": jax.random.normal(k[0], (3, 4 * HID)) * 0.3,
                 "wh": jax.random.normal(k[1], (HID, 4 * HID)) * HID ** -0.5,
                 "b": jnp.zeros(4 * HID).at[HID:2 * HID].set(1.0)},
        "out": {"w": jax.random.normal(k[2], (HID, out)) * 0.1, "b": jnp.zeros(out)},
        "h0": jnp.zeros(HID),
    }


def cell(p, carry, x):
    h, c = carry
    i, f, g, o = jnp.split(x @ p["wx"] + h @ p["wh"] + p["b"], 4, axis=-1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    h = jax.nn.sigmoid(o) * jnp.tanh(c)
    return (h, c), h


def mdn_nll(raw, target):
    pen, raw = raw[..., 0], raw[..., 1:]
    logit, mx, my, lsx, lsy, r = jnp.split(raw, 6, axis=-1)
    rho = 0.95 * jnp.tanh(r)
    dx = (target[..., 0:1] - mx) * jnp.exp(-lsx)
    dy = (target[..., 1:2] - my) * jnp.exp(-lsy)
    q = 1 - rho ** 2
    z = dx ** 2 + dy ** 2 - 2 * rho * dx * dy
    logn = -z / (2 * q) - jnp.log(2 * jnp.pi) - lsx - lsy - 0.5 * jnp.log(q)
    ll = jax.nn.logsumexp(jax.nn.log_softmax(logit) + logn, axis=-1)
    up = target[..., 2]
    return -ll + optax.sigmoid_binary_cross_entropy(pen, up)


def loss_fn(params, strokes, mask):
    b = strokes.shape[0]
    h = jnp.broadcast_to(jnp.tanh(params["h0"]), (b, HID))
    xs = jnp.swapaxes(strokes, 0, 1)
    _, hs = jax.lax.scan(partial(cell, params["lstm"]), (h, jnp.zeros_like(h)), xs[:-1])
    raw = hs @ params["out"]["w"] + params["out"]["b"]
    m = mask.T[1:]
    return jnp.sum(mdn_nll(raw, xs[1:]) * m) / jnp.sum(m)


def make_tx(lr=2e-3):
    return optax.chain(optax.scale_by_adam(eps=1e-6), optax.scale_by_learning_rate(lr))


def clip_by_norm(g, limit=1.0):
    norm = optax.global_norm(g)
    return jax.tree.map(lambda t: jnp.where(norm < limit, t, t / norm * limit), g)


@partial(jax.jit, static_argnames=("tx", "micro"))
def train_step(params, opt_state, strokes, mask, *, tx, micro):
    strokes = strokes.reshape(micro, -1, *strokes.shape[1:])
    mask = mask.reshape(micro, -1, mask.shape[-1])

    def body(acc, chunk):
        loss, g = jax.value_and_grad(loss_fn)(params, *chunk)
        return jax.tree.map(jnp.add, acc, (loss, clip_by_norm(g))), None

    zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
    (loss, g), _ = jax.lax.scan(body, zero, (strokes, mask))
    loss, g = jax.tree.map(lambda t: t / micro, (loss, g))
    updates, opt_state = tx.update(g, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def handwriting(rng, n):
    ang = np.cumsum(rng.randn(n, LEN) * 0.5, 1)
    x = np.stack([np.cos(ang), np.sin(ang), rng.rand(n, LEN) < 0.1], -1)
    mask = np.arange(LEN)[None] < rng.randint(6, LEN + 1, n)[:, None]
    return x.astype(np.float32), mask.astype(np.float32)


def main(steps=5, bs=24, micro=3):
    rng = np.random.RandomState(0)
    params, tx = init(jax.random.key(0)), make_tx()
    opt_state = tx.init(params)
    for s in range(steps):
        params, opt_state, loss = train_step(params, opt_state, *handwriting(rng, bs), tx=tx, micro=micro)
        print(s, float(loss))


if __name__ == "__main__":
    main()
