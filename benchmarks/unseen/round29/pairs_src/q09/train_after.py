"""Contrastive embedding of point sets without a framework."""
import os
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

B1, B2, EPS, LR = 0.9, 0.999, 1e-8, 3e-3


class AdamState(NamedTuple):
    second: dict
    first: dict
    t: jax.Array


def affine(p, x):
    return jnp.einsum("...i,io->...o", x, p["kernel"]) + p["bias"]


def layer_norm(p, x, eps=1e-6):
    mu = x.mean(-1, keepdims=True)
    var = jnp.maximum(0.0, (x * x).mean(-1, keepdims=True) - mu * mu)
    return (x - mu) * (jax.lax.rsqrt(var + eps) * p["scale"]) + p["bias"]


def encode_one(params, cloud):
    """[points, 3] -> [embedding]"""
    h = jnp.tanh(affine(params["a_in"], cloud))
    h = jnp.tanh(affine(params["z_hidden"], h))
    pooled = jnp.concatenate([jnp.mean(h, 0), jnp.max(h, 0)])
    e = affine(params["b_out"], layer_norm(params["c_ln"], pooled))
    return e * jax.lax.rsqrt(jnp.vdot(e, e) + 1e-8)


encode = jax.vmap(encode_one, in_axes=(None, 0))


def info_nce(params, positives, anchors, inv_tau=5.0):
    logits = jnp.einsum("ad,pd->ap", encode(params, anchors), encode(params, positives)) * inv_tau
    diag = jnp.trace(logits)
    rows = jax.nn.logsumexp(logits, axis=1).sum()
    cols = jax.nn.logsumexp(logits, axis=0).sum()
    return (rows + cols - 2.0 * diag) / (2 * logits.shape[0])


def adam(params, grads, state):
    t = state.t + 1
    first = jax.tree.map(lambda m, g: B1 * m + (1 - B1) * g, state.first, grads)
    second = jax.tree.map(lambda v, g: B2 * v + (1 - B2) * g**2, state.second, grads)
    c1 = 1 - B1**t.astype(jnp.float32)
    c2 = 1 - B2**t.astype(jnp.float32)
    new = jax.tree.map(lambda p, m, v: p - LR * (m / c1) / (jnp.sqrt(v / c2) + EPS),
                       params, first, second)
    return new, AdamState(second, first, t)


@jax.jit
def update(state, positives, anchors, params):
    value, grads = jax.value_and_grad(info_nce)(params, positives, anchors)
    params, state = adam(params, grads, state)
    return value, state, params


def initial_params():
    import flax.linen as nn

    class Stub(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.Dense(24, name="mid")(nn.Dense(24, name="lift")(x))
            h = jnp.concatenate([h.mean(axis=-2), h.max(axis=-2)], axis=-1)
            return nn.Dense(12, name="embed")(nn.LayerNorm(name="norm")(h))

    old = Stub().init(jax.random.key(0), jnp.zeros((8, 10, 3)))["params"]
    return {"a_in": old["lift"], "z_hidden": old["mid"], "c_ln": old["norm"], "b_out": old["embed"]}


def clouds(rng, n=8, k=10):
    base = rng.normal(size=(n, 1, 3)) + 0.3 * rng.normal(size=(n, k, 3))
    jitter = base + 0.05 * rng.normal(size=base.shape)
    return base.astype(np.float32), jitter.astype(np.float32)


def main(steps=6):
    rng = np.random.default_rng(0)
    params = initial_params()
    zeros = jax.tree.map(jnp.zeros_like, params)
    state = AdamState(zeros, zeros, jnp.zeros((), jnp.int32))
    if "LOWER_TO" in os.environ:
        a, p = clouds(np.random.default_rng(0))
        text = update.lower(state, p, a, params).compiler_ir(dialect="hlo").as_hlo_text()
        open(os.environ["LOWER_TO"], "w").write(text)
    for i in range(steps):
        anchors, positives = clouds(rng)
        value, state, params = update(state, positives, anchors, params)
        print(i, f"{float(value):.6f}")
    print("abs sum", f"{sum(float(jnp.abs(x).sum()) for x in jax.tree.leaves(params)):.4f}")


if __name__ == "__main__":
    main()
