"""Residual MLP on tabular data, bf16 weights."""
import math

import jax
import jax.numpy as jnp
import numpy as np

D_IN, D, DEPTH, OUT = 10, 16, 3, 2
BASE_LR = 0.02
WARMUP, TOTAL = 2, 20


def init(key):
    def mat(k, i, o):
        return (jax.random.normal(k, (i, o)) * math.sqrt(2.0 / i)).astype(jnp.bfloat16)

    ks = jax.random.split(key, 2 * DEPTH + 2)
    layers = [
        {
            "up": mat(ks[2 * i], D, 2 * D),
            "down": mat(ks[2 * i + 1], 2 * D, D),
            "scale": jnp.ones((D,), jnp.bfloat16),
        }
        for i in range(DEPTH)
    ]
    return {"stem": mat(ks[-2], D_IN, D), "layers": layers, "out": mat(ks[-1], D, OUT)}


def rms(x, scale):
    ms = jnp.mean(jnp.square(x.astype(jnp.float32)), -1, keepdims=True)
    return (x * jax.lax.rsqrt(ms + 1e-6).astype(x.dtype)) * scale


def net(params, x):
    h = x @ params["stem"]
    for lyr in params["layers"]:
        u = rms(h, lyr["scale"]) @ lyr["up"]
        h = h + jax.nn.silu(u) @ lyr["down"]
    return h @ params["out"]


def huber(pred, y, delta=1.0):
    err = jnp.abs(pred.astype(jnp.float32) - y)
    quad = jnp.minimum(err, delta)
    return jnp.mean(0.5 * quad**2 + delta * (err - quad))


def schedule(count):
    count = count.astype(jnp.float32)
    warm = (count + 1) / WARMUP
    cos = 0.5 * (1 + jnp.cos(jnp.pi * count / TOTAL))
    return BASE_LR * jnp.minimum(warm, cos)


@jax.jit
def step(state, batch):
    params, velocity, count = state
    x, y = batch
    loss, grads = jax.value_and_grad(lambda p: huber(net(p, x.astype(jnp.bfloat16)), y))(params)
    lr = schedule(count)
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, grads)
    params = jax.tree.map(lambda p, v: p - lr * v, params, velocity)
    return (params, velocity, count + 1), loss


def batches(n, seed=0):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(D_IN, OUT))
    for _ in range(n):
        x = rng.normal(size=(32, D_IN))
        yield x.astype(np.float32), np.tanh(x @ w).astype(np.float32)


if __name__ == "__main__":
    params = init(jax.random.PRNGKey(0))
    state = (params, jax.tree.map(jnp.zeros_like, params), jnp.zeros((), jnp.int32))
    for i, batch in enumerate(batches(4)):
        state, loss = step(state, batch)
        print(f"{i} {float(loss):.5f}")
