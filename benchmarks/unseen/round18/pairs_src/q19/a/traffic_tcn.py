"""Temporal graph network for road speeds: diffusion convolution inside a recurrent cell."""
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Shape(NamedTuple):
    nodes: int = 9
    hidden: int = 12
    past: int = 6
    ahead: int = 3
    hops: int = 2


def glorot(key, i, o):
    return jax.random.normal(key, (i, o)) * jnp.sqrt(2.0 / (i + o))


def init(key, s):
    ks = jax.random.split(key, 4)
    wide = (s.hops + 1) * (2 + s.hidden)
    return {
        "cand": {"b": jnp.zeros(s.hidden), "w": glorot(ks[0], wide, s.hidden)},
        "gates": {"b": jnp.ones(2 * s.hidden), "w": glorot(ks[1], wide, 2 * s.hidden)},
        "read": {"b": jnp.zeros(1), "w": glorot(ks[2], s.hidden, 1)},
    }


def diffuse(adj, x, hops):
    outs = [x]
    for _ in range(hops):
        outs.append(jnp.einsum("nm,bmf->bnf", adj, outs[-1]))
    return jnp.concatenate(outs, -1)


def affine(p, x):
    return x @ p["w"] + p["b"]


def cell(p, s, adj, h, x):
    both = diffuse(adj, jnp.concatenate([x, h], -1), s.hops)
    r, u = jnp.split(jax.nn.sigmoid(affine(p["gates"], both)), 2, -1)
    mixed = diffuse(adj, jnp.concatenate([x, r * h], -1), s.hops)
    c = jnp.tanh(affine(p["cand"], mixed))
    return u * h + (1 - u) * c


def forecast(p, s, adj, speeds):
    b = speeds.shape[0]
    h = jnp.zeros((b, s.nodes, s.hidden))
    for t in range(s.past):
        h = cell(p, s, adj, h, speeds[:, t])
    preds, last = [], speeds[:, -1]
    for _ in range(s.ahead):
        h = cell(p, s, adj, h, last)
        y = affine(p["read"], h)
        preds.append(y)
        last = jnp.concatenate([y, last[..., 1:]], -1)
    return jnp.stack(preds, 1)[..., 0]


def masked_mae(pred, true):
    ok = (true > 0).astype(pred.dtype)
    return (jnp.abs(pred - true) * ok).sum() / (ok.sum() + 1e-5)


def step(params, adj, speeds, target):
    s = Shape()
    loss, g = jax.value_and_grad(lambda p: masked_mae(forecast(p, s, adj, speeds), target))(params)
    params = jax.tree.map(lambda w, d: w - 0.05 * d, params, g)
    return params, loss


def main():
    s = Shape()
    rng = np.random.default_rng(0)
    adj = rng.random((s.nodes, s.nodes), dtype=np.float32)
    adj /= adj.sum(1, keepdims=True)
    params = init(jax.random.key(1), s)
    run = jax.jit(step)
    for i in range(2):
        speeds = rng.random((4, s.past, s.nodes, 2), dtype=np.float32)
        target = rng.random((4, s.ahead, s.nodes), dtype=np.float32)
        params, loss = run(params, adj, speeds, target)
        print(i, loss)


if __name__ == "__main__":
    main()
