"""Set regression without framework code."""
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

SET, FEAT, HID, B = 7, 5, 16, 6
LR, B1, B2, EPS, WD = 1e-2, 0.9, 0.99, 1e-8, 1e-3


class Weights(NamedTuple):
    w_enc: jax.Array
    b_enc: jax.Array
    v_att: jax.Array
    ln_g: jax.Array
    ln_b: jax.Array
    w_mlp: jax.Array
    b_mlp: jax.Array
    w_out: jax.Array
    b_out: jax.Array


class Adam(NamedTuple):
    nu: Weights
    mu: Weights
    t: jax.Array


def init(key):
    k = jax.random.split(key, 4)
    he = lambda k, i, o: jax.random.normal(k, (i, o)) / np.sqrt(i)
    return Weights(
        he(k[0], FEAT, HID), jnp.zeros(HID), he(k[1], HID, 1),
        jnp.ones(HID), jnp.zeros(HID),
        he(k[2], HID, HID), jnp.zeros(HID),
        he(k[3], HID, 1), jnp.zeros(1),
    )


def forward(w, x, mask):
    h = jnp.tanh(jnp.einsum("bsf,fh->bsh", x, w.w_enc) + w.b_enc)
    s = jnp.einsum("bsh,ho->bs", h, w.v_att)
    s = jnp.where(mask, s, -1e9)
    p = jnp.exp(s - jax.lax.stop_gradient(s.max(1, keepdims=True)))
    p = p / p.sum(1, keepdims=True)
    z = jnp.einsum("bs,bsh->bh", p, h)
    c = z - z.mean(1, keepdims=True)
    z = c * jax.lax.rsqrt((c ** 2).mean(1, keepdims=True) + 1e-6) * w.ln_g + w.ln_b
    z = jax.nn.relu(z @ w.w_mlp + w.b_mlp)
    return (z @ w.w_out + w.b_out)[:, 0]


def huber(w, x, mask, target):
    err = jnp.abs(forward(w, x, mask) - target)
    quad = jnp.minimum(err, 1.0)
    return jnp.mean(0.5 * quad ** 2 + (err - quad))


def adamw(w, g, s):
    t = s.t + 1
    mu = jax.tree.map(lambda m, g: B1 * m + (1 - B1) * g, s.mu, g)
    nu = jax.tree.map(lambda v, g: B2 * v + (1 - B2) * jnp.square(g), s.nu, g)
    c1, c2 = 1 - B1 ** t, 1 - B2 ** t

    def upd(p, m, v):
        return p - LR * (m / c1 / (jnp.sqrt(v / c2) + EPS) + WD * p)

    return jax.tree.map(upd, w, mu, nu), Adam(nu, mu, t)


@jax.jit
def train_step(state, w, target, mask, x):
    loss, g = jax.value_and_grad(huber)(w, x, mask, target)
    w, state = adamw(w, g, state)
    return loss, w, state


def make_batch(rng):
    x = rng.normal(size=(B, SET, FEAT)).astype(np.float32)
    n = rng.integers(2, SET + 1, B)
    mask = np.arange(SET)[None] < n[:, None]
    y = ((x.max(-1) * mask).sum(1) / n * 2).astype(np.float32)
    return x, mask, y


def main(steps=5):
    rng = np.random.default_rng(4)
    make_batch(rng)
    w = init(jax.random.key(0))
    zeros = jax.tree.map(jnp.zeros_like, w)
    state = Adam(zeros, zeros, jnp.zeros((), jnp.int32))
    for i in range(steps):
        x, mask, y = make_batch(rng)
        loss, w, state = train_step(state, w, y, mask, x)
        print(f"step {i}: {float(loss):.5f}")


if __name__ == "__main__":
    main()
