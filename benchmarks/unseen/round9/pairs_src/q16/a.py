import argparse
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class State(NamedTuple):
    params: dict
    trace: dict
    step: jax.Array


def conv_init(key, k, i, o):
    return jax.random.normal(key, (k, k, i, o)) * (2.0 / (k * k * i)) ** 0.5


def lin_init(key, i, o):
    return {"kernel": jax.random.normal(key, (i, o)) * i ** -0.5, "bias": jnp.zeros(o)}


def init_params(key, width=8, dim=24):
    k = jax.random.split(key, 8)
    return {
        "encoder": {
            "conv1": conv_init(k[0], 3, 3, width),
            "conv2": conv_init(k[1], 3, width, 2 * width),
            "conv3": conv_init(k[2], 3, 2 * width, 4 * width),
        },
        "projector": [lin_init(k[3], 4 * width, dim), lin_init(k[4], dim, dim)],
        "predictor": [lin_init(k[5], dim, dim // 2), lin_init(k[6], dim // 2, dim)],
    }


def conv(x, w, stride):
    return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def standardize(x, axes):
    mean = x.mean(axes, keepdims=True)
    var = ((x - mean) ** 2).mean(axes, keepdims=True)
    return (x - mean) / jnp.sqrt(var + 1e-5)


def encode(p, x):
    for name, stride in (("conv1", 1), ("conv2", 2), ("conv3", 2)):
        x = jax.nn.relu(standardize(conv(x, p[name], stride), (0, 1, 2)))
    return x.mean((1, 2))


def mlp(layers, x):
    for i, l in enumerate(layers):
        x = x @ l["kernel"] + l["bias"]
        if i + 1 < len(layers):
            x = jax.nn.relu(standardize(x, (0,)))
    return x


def neg_cosine(p, z):
    p = p / (jnp.linalg.norm(p, axis=-1, keepdims=True) + 1e-8)
    z = z / (jnp.linalg.norm(z, axis=-1, keepdims=True) + 1e-8)
    return -(p * z).sum(-1).mean()


def objective(params, x1, x2):
    z1 = mlp(params["projector"], encode(params["encoder"], x1))
    z2 = mlp(params["projector"], encode(params["encoder"], x2))
    p1, p2 = mlp(params["predictor"], z1), mlp(params["predictor"], z2)
    z1, z2 = jax.lax.stop_gradient(z1), jax.lax.stop_gradient(z2)
    return 0.5 * (neg_cosine(p1, z2) + neg_cosine(p2, z1))


def sgd(params, trace, grads, lr, mu=0.9, wd=1e-4):
    grads = jax.tree.map(lambda g, p: g + wd * p, grads, params)
    trace = jax.tree.map(lambda t, g: mu * t + g, trace, grads)
    params = jax.tree.map(lambda p, t: p - lr * t, params, trace)
    return params, trace


@partial(jax.jit, donate_argnums=0)
def update(state, x1, x2):
    loss, grads = jax.value_and_grad(objective)(state.params, x1, x2)
    lr = 0.05 * 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(state.step / 100.0, 1.0)))
    params, trace = sgd(state.params, state.trace, grads, lr)
    return State(params, trace, state.step + 1), loss


def views(rng, n=8):
    base = rng.standard_normal((n, 8, 8, 3)).astype(np.float32)
    jitter = lambda: base * rng.uniform(0.8, 1.2, (n, 1, 1, 1)).astype(np.float32)
    return jitter(), jitter()[:, :, ::-1]


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=12)
    ap.add_argument("--write-hlo")
    args = ap.parse_args()
    rng = np.random.default_rng(4)
    params = init_params(jax.random.PRNGKey(2))
    state = State(params, jax.tree.map(jnp.zeros_like, params), jnp.zeros((), jnp.int32))
    for i in range(args.steps):
        x1, x2 = views(rng)
        state, loss = update(state, x1, x2)
        if i % 5 == 0:
            print(f"{i:03d} {loss:.4f}")
    if args.write_hlo:
        open(args.write_hlo, "w").write(update.lower(state, x1, x2).as_text("hlo", debug_info=True))
