"""DP-SGD arrhythmia classifier on short ECG windows. Plain JAX, no framework."""
import argparse
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

CLIP, SIGMA, CLASSES, WIDTH = 1.0, 0.6, 4, 8


class State(NamedTuple):
    params: Any
    mu: Any
    nu: Any
    count: jax.Array


def conv(x, w, b, stride):
    y = lax.conv_general_dilated(x[None], w, (stride,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))
    return y[0] + b


def group_norm(x, scale, bias, groups=2, eps=1e-6):
    n, c = x.shape
    g = x.reshape(n, groups, c // groups)
    mean = g.mean((0, 2), keepdims=True)
    var = jnp.square(g - mean).mean((0, 2), keepdims=True)
    return ((g - mean) * lax.rsqrt(var + eps)).reshape(n, c) * scale + bias


def forward(p, x):
    """One window [time, leads] to class logits."""
    x = group_norm(conv(x, p["c1"]["kernel"], p["c1"]["bias"], 2), p["g1"]["scale"], p["g1"]["bias"])
    x = x * jax.nn.sigmoid(x)
    x = conv(x, p["c2"]["kernel"], p["c2"]["bias"], 2)
    x = x * jax.nn.sigmoid(x)
    h = jnp.hstack([jnp.mean(x, 0), jnp.max(x, 0)])
    h = jnp.tanh(jnp.einsum("i,ij->j", h, p["fc"]["kernel"]) + p["fc"]["bias"])
    return p["out"]["kernel"].T @ h + p["out"]["bias"]


def clipped_grad(p, x, y):
    def nll(q):
        logits = forward(q, x)
        return -jax.nn.log_softmax(logits) @ jax.nn.one_hot(y, CLASSES)

    loss, g = jax.value_and_grad(nll)(p)
    sq = sum(jnp.vdot(l, l) for l in jax.tree.leaves(g))
    factor = 1.0 / jnp.maximum(1.0, jnp.sqrt(sq) / CLIP)
    return loss, g, factor


@jax.jit
def train_step(state, x, y, key, lr=5e-3, b1=0.9, b2=0.999, eps=1e-8):
    n = x.shape[0]
    losses, grads, factors = jax.vmap(clipped_grad, (None, 0, 0))(state.params, x, y)
    leaves, treedef = jax.tree.flatten(grads)
    sizes = [g[0].size for g in leaves]
    chunks = jnp.split(jax.random.normal(key, (sum(sizes),)) * (SIGMA * CLIP / n), np.cumsum(sizes)[:-1])
    noisy = []
    for g, z in zip(leaves, chunks):
        noisy.append(jnp.tensordot(factors, g, axes=1) / n + z.reshape(g.shape[1:]))
    g = treedef.unflatten(noisy)

    count = state.count + 1
    mu = jax.tree.map(lambda m, d: b1 * m + (1 - b1) * d, state.mu, g)
    nu = jax.tree.map(lambda v, d: b2 * v + (1 - b2) * d * d, state.nu, g)
    c1, c2 = 1 - b1 ** count, 1 - b2 ** count
    params = jax.tree.map(lambda p, m, v: p - lr * (m / c1) / (jnp.sqrt(v / c2) + eps),
                          state.params, mu, nu)
    return State(params, mu, nu, count), jnp.sum(losses) / n


def make_state(seed=0):
    ks = jax.random.split(jax.random.key(seed), 4)
    init = jax.nn.initializers.lecun_normal()

    def layer(k, *shape):
        return {"kernel": init(k, shape), "bias": jnp.zeros(shape[-1])}

    params = {
        "c1": layer(ks[0], 7, 2, WIDTH),
        "g1": {"scale": jnp.ones(WIDTH), "bias": jnp.zeros(WIDTH)},
        "c2": layer(ks[1], 5, WIDTH, 2 * WIDTH),
        "fc": layer(ks[2], 4 * WIDTH, 16),
        "out": layer(ks[3], 16, CLASSES),
    }
    zeros = jax.tree.map(jnp.zeros_like, params)
    return State(params, zeros, zeros, jnp.zeros((), jnp.int32))


def windows(n, seed=0):
    r = np.random.RandomState(seed)
    y = r.randint(0, CLASSES, n)
    t = np.arange(48)[None, :, None]
    x = np.sin(t * (0.1 + 0.1 * y[:, None, None])) + 0.4 * r.randn(n, 48, 2)
    return x.astype(np.float32), y.astype(np.int32)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=6)
    ap.add_argument("--bs", type=int, default=16)
    a = ap.parse_args()
    state = make_state()
    key = jax.random.key(7)
    x, y = windows(a.bs * a.steps)
    for s in range(a.steps):
        sl = slice(s * a.bs, (s + 1) * a.bs)
        state, loss = train_step(state, x[sl], y[sl], jax.random.fold_in(key, s))
        print(s, float(loss))


if __name__ == "__main__":
    main()
