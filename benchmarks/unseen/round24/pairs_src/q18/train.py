"""Half-precision training of a tiny convolutional sequence classifier, everything in one jitted update."""
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

HP = dict(vocab=24, dim=16, kernel=3, layers=2, classes=4, batch=8, seq=10, lr=3e-3, b1=0.9, b2=0.98, clip=1.0)


class AdamState(NamedTuple):
    count: jax.Array
    mu: dict
    nu: dict


class TrainState(NamedTuple):
    params: dict
    opt: AdamState


def init_params(key, dtype=jnp.bfloat16):
    keys = jax.random.split(key, 2 + 2 * HP["layers"])
    d = HP["dim"]
    params = {"embed": 0.1 * jax.random.normal(keys[0], (HP["vocab"], d))}
    for i in range(HP["layers"]):
        params[f"conv{i}"] = {
            "w": jax.random.normal(keys[2 * i + 1], (HP["kernel"], d, 2 * d)) / np.sqrt(HP["kernel"] * d),
            "b": jnp.zeros((2 * d,)),
            "scale": jnp.ones((d,)),
        }
    params["head"] = {
        "w": jax.random.normal(keys[-1], (d, HP["classes"])) / np.sqrt(d),
        "b": jnp.zeros((HP["classes"],)),
    }
    return jax.tree_util.tree_map(lambda x: x.astype(dtype), params)


def init_state(key):
    params = init_params(key)
    zeros = functools.partial(jax.tree_util.tree_map, jnp.zeros_like)
    return TrainState(params, AdamState(jnp.zeros((), jnp.int32), zeros(params), zeros(params)))


def rms_norm(x, scale):
    var = jnp.mean(jnp.square(x.astype(jnp.float32)), axis=-1, keepdims=True)
    return (x * jax.lax.rsqrt(var + 1e-6)).astype(x.dtype) * scale


def glu_conv(p, x):
    y = jax.lax.conv_general_dilated(
        rms_norm(x, p["scale"]), p["w"], (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")
    )
    a, g = jnp.split(y + p["b"], 2, axis=-1)
    return x + a * jax.nn.sigmoid(g)


def forward(params, tokens):
    x = params["embed"][tokens]
    for i in range(HP["layers"]):
        x = glu_conv(params[f"conv{i}"], x)
    pooled = x.max(axis=1)
    return pooled @ params["head"]["w"] + params["head"]["b"]


def loss_fn(params, tokens, labels):
    logp = jax.nn.log_softmax(forward(params, tokens).astype(jnp.float32))
    return -jnp.take_along_axis(logp, labels[:, None], axis=1).mean()


def clip_by_norm(grads, limit):
    leaves = jax.tree_util.tree_leaves(grads)
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(g.astype(jnp.float32))) for g in leaves))
    factor = jnp.minimum(1.0, limit / (norm + 1e-6))
    return jax.tree_util.tree_map(lambda g: g * factor, grads), norm


def adam(grads, opt, params):
    count = opt.count + 1
    tmap = jax.tree_util.tree_map
    mu = tmap(lambda m, g: HP["b1"] * m + (1 - HP["b1"]) * g, opt.mu, grads)
    nu = tmap(lambda v, g: HP["b2"] * v + (1 - HP["b2"]) * g * g, opt.nu, grads)
    c1 = 1 - HP["b1"] ** count.astype(jnp.float32)
    c2 = 1 - HP["b2"] ** count.astype(jnp.float32)
    new = tmap(
        lambda p, m, v: (p - HP["lr"] * (m / c1) / (jnp.sqrt(v / c2) + 1e-8)).astype(p.dtype), params, mu, nu
    )
    return new, AdamState(count, mu, nu)


@jax.jit
def update(state, tokens, labels):
    loss, grads = jax.value_and_grad(loss_fn)(state.params, tokens, labels)
    grads, norm = clip_by_norm(grads, HP["clip"])
    params, opt = adam(grads, state.opt, state.params)
    return TrainState(params, opt), {"loss": loss, "grad_norm": norm}


def data(rng):
    while True:
        labels = rng.integers(0, HP["classes"], HP["batch"])
        tokens = rng.integers(0, HP["vocab"] // HP["classes"], (HP["batch"], HP["seq"]))
        tokens = tokens + (labels * (HP["vocab"] // HP["classes"]))[:, None]
        noise = rng.random(tokens.shape) < 0.3
        tokens = np.where(noise, rng.integers(0, HP["vocab"], tokens.shape), tokens)
        yield tokens.astype(np.int32), labels.astype(np.int32)


def main():
    state = init_state(jax.random.PRNGKey(0))
    for step, (tokens, labels) in zip(range(6), data(np.random.default_rng(0))):
        state, metrics = update(state, tokens, labels)
        print(step, {k: round(float(v), 4) for k, v in metrics.items()})


if __name__ == "__main__":
    main()
