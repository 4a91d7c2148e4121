"""Growing neural cellular automata."""
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

SIZE, CH, HIDDEN = 16, 8, 32


def init_params(key, dtype=jnp.bfloat16):
    k1, k2 = jax.random.split(key)
    return {
        "w1": (jax.random.normal(k1, (3 * CH, HIDDEN)) / np.sqrt(3 * CH)).astype(dtype),
        "b1": jnp.zeros((HIDDEN,), dtype),
        "w2": (jax.random.normal(k2, (HIDDEN, CH)) * 0.02).astype(dtype),
        "b2": jnp.zeros((CH,), dtype),
    }


def init_velocity(params):
    return jax.tree_util.tree_map(lambda p: jnp.zeros(p.shape, jnp.float32), params)


def perceive(x):
    ident = np.zeros((3, 3), np.float32)
    ident[1, 1] = 1.0
    sobel = np.outer([1, 2, 1], [-1, 0, 1]).astype(np.float32) / 8.0
    bank = np.stack([ident, sobel, sobel.T], axis=-1)
    kernel = jnp.asarray(np.tile(bank[:, :, None, :], (1, 1, 1, CH)), x.dtype)
    return jax.lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=CH)


def alive(x):
    a = jax.lax.reduce_window(x[..., 3:4], np.array(-np.inf, x.dtype), jax.lax.max,
                              (1, 3, 3, 1), (1, 1, 1, 1), "SAME")
    return (a > 0.1).astype(x.dtype)


def cell_update(params, x, key):
    pre = alive(x)
    h = jax.nn.relu(perceive(x) @ params["w1"] + params["b1"])
    dx = h @ params["w2"] + params["b2"]
    fire = jax.random.bernoulli(key, 0.5, x.shape[:-1] + (1,))
    x = x + dx * fire.astype(dx.dtype)
    return x * pre * alive(x)


def loss_fn(params, seed, target, key, ticks):
    x = seed.astype(params["w1"].dtype)
    for k in jax.random.split(key, ticks):
        x = cell_update(params, x, k)
    err = (x[..., :4].astype(jnp.float32) - target) ** 2
    return err.mean() + 1e-2 * jnp.maximum(jnp.abs(x) - 1.0, 0.0).astype(jnp.float32).mean()


@partial(jax.jit, static_argnames=("ticks",))
def train_step(params, velocity, seed, target, key, lr, ticks=3):
    loss, grads = jax.value_and_grad(loss_fn)(params, seed, target, key, ticks)
    grads = jax.tree_util.tree_map(
        lambda g: g.astype(jnp.float32) / (jnp.linalg.norm(g.astype(jnp.float32)) + 1e-8), grads)
    velocity = jax.tree_util.tree_map(lambda v, g: 0.9 * v + g, velocity, grads)
    params = jax.tree_util.tree_map(lambda p, v: p - lr * v, params, velocity)
    return params, velocity, loss


def main(dump=None):
    key = jax.random.PRNGKey(0)
    params = init_params(key)
    velocity = init_velocity(params)
    seed = jnp.zeros((2, SIZE, SIZE, CH)).at[:, SIZE // 2, SIZE // 2, 3:].set(1.0)
    target = jax.random.uniform(jax.random.PRNGKey(5), (2, SIZE, SIZE, 4))
    for i in range(3):
        key, sub = jax.random.split(key)
        lr = 2e-3 * 0.5 ** (i // 2)
        args = (params, velocity, seed, target, sub, lr)
        if dump:
            text = train_step.lower(*args).compiler_ir("hlo").as_hlo_text()
            with open(f"{dump}_{i}.hlo", "w") as f:
                f.write(text)
        params, velocity, loss = train_step(*args)
        print(i, float(loss), train_step._cache_size())


if __name__ == "__main__":
    main(*sys.argv[1:])
