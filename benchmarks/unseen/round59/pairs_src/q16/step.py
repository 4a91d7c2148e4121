"""Lat-lon weather emulator: periodic convnet, area-weighted loss, autoregressive rollout."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

LAT, LON, VARS, HIDDEN = 8, 16, 3, 8
AREA = jnp.cos(jnp.deg2rad(jnp.linspace(-78.75, 78.75, LAT)))
AREA = (AREA / AREA.mean())[None, :, None, None]


def init(key):
    k = jax.random.split(key, 3)
    return {
        "embed": {"w": 0.1 * jax.random.normal(k[0], (3, 3, VARS, HIDDEN)), "b": jnp.zeros(HIDDEN)},
        "mix": {"w": 0.1 * jax.random.normal(k[1], (3, 3, HIDDEN, HIDDEN)), "b": jnp.zeros(HIDDEN)},
        "head": {"w": 0.1 * jax.random.normal(k[2], (1, 1, HIDDEN, VARS)), "b": jnp.zeros(VARS)},
    }


def conv(p, x):
    r = p["w"].shape[0] // 2
    x = jnp.pad(x, ((0, 0), (0, 0), (r, r), (0, 0)), mode="wrap")
    x = jnp.pad(x, ((0, 0), (r, r), (0, 0), (0, 0)), mode="edge")
    y = jax.lax.conv_general_dilated(x, p["w"], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y + p["b"]


def advance(params, x):
    h = jax.nn.gelu(conv(params["embed"], x))
    h = h + jax.nn.gelu(conv(params["mix"], h))
    return x + conv(params["head"], h)


def rollout_loss(params, x, truth, steps):
    total = 0.0
    for t in range(steps):
        x = advance(params, x)
        total = total + jnp.mean(AREA * (x - truth[:, t]) ** 2)
    return total / steps


tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3, weight_decay=1e-4))


@partial(jax.jit, static_argnames="steps")
def train_step(params, opt_state, x, truth, steps):
    loss, grads = jax.value_and_grad(rollout_loss)(params, x, truth, steps)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def curriculum(iteration):
    return 1 if iteration < 4 else 2


def archive(n, max_steps=2):
    rng = np.random.default_rng(0)
    for _ in range(n):
        yield (rng.normal(size=(2, LAT, LON, VARS)).astype(np.float32),
               rng.normal(size=(2, max_steps, LAT, LON, VARS)).astype(np.float32))


def main(dump=None):
    params = init(jax.random.key(0))
    opt_state = tx.init(params)
    for iteration, (x, truth) in enumerate(archive(8)):
        args = (params, opt_state, x, truth, curriculum(iteration))
        if dump:
            dump(iteration, train_step, args)
        params, opt_state, loss = train_step(*args)
        print(f"{iteration} loss {loss:.4f}")
    print("compiled", train_step._cache_size())


if __name__ == "__main__":
    main()
