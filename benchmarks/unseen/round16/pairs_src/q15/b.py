"""Physics-informed network for the 1-D heat equation, with a hand-written momentum optimiser."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

WIDTH, DEPTH = 16, 3
DIFFUSIVITY = 0.1
LR, MOMENTUM, DECAY, CLIP = 5e-3, 0.9, 1e-3, 1.0


def init(key, sizes):
    layers = []
    for k, (i, o) in zip(jax.random.split(key, len(sizes) - 1), zip(sizes[:-1], sizes[1:])):
        layers.append({"w": jax.random.normal(k, (i, o)) * np.sqrt(2 / (i + o)), "b": jnp.zeros(o)})
    return layers


def u(params, x, t):
    h = jnp.stack([x, t])
    for layer in params[:-1]:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    return (h @ params[-1]["w"] + params[-1]["b"])[0]


def residual(params, x, t):
    u_t = jax.grad(u, argnums=2)(params, x, t)
    u_xx = jax.grad(jax.grad(u, argnums=1), argnums=1)(params, x, t)
    return u_t - DIFFUSIVITY * u_xx


def objective(params, points):
    inner = jax.vmap(partial(residual, params))(points["x"], points["t"])
    start = jax.vmap(partial(u, params))(points["x0"], jnp.zeros_like(points["x0"]))
    wall = jax.vmap(partial(u, params))(points["wall"], points["tw"])
    return (jnp.mean(inner ** 2)
            + 10.0 * jnp.mean((start - jnp.sin(jnp.pi * points["x0"])) ** 2)
            + jnp.mean(wall ** 2))


def global_norm(tree):
    return jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree_util.tree_leaves(tree)))


def clip(grads):
    scale = jnp.minimum(1.0, CLIP / (global_norm(grads) + 1e-6))
    return jax.tree_util.tree_map(lambda g: g * scale, grads)


def decay(grads, params):
    return jax.tree_util.tree_map(lambda g, p: g + DECAY * p, grads, params)


@jax.jit
def train_step(params, velocity, points):
    loss, grads = jax.value_and_grad(objective)(params, points)
    grads = decay(grads, params)
    grads = clip(grads)
    velocity = jax.tree_util.tree_map(lambda v, g: MOMENTUM * v - LR * g, velocity, grads)
    params = jax.tree_util.tree_map(jnp.add, params, velocity)
    return params, velocity, loss


def collocation(rng, n=32):
    f = lambda a: jnp.asarray(a, jnp.float32)
    return {
        "x": f(rng.uniform(0, 1, n)), "t": f(rng.uniform(0, 1, n)), "x0": f(rng.uniform(0, 1, n // 2)),
        "wall": f(rng.integers(0, 2, n // 2)), "tw": f(rng.uniform(0, 1, n // 2)),
    }


def main(steps=40):
    rng = np.random.default_rng(0)
    params = init(jax.random.PRNGKey(1), [2] + [WIDTH] * DEPTH + [1])
    velocity = jax.tree_util.tree_map(jnp.zeros_like, params)
    for step in range(steps):
        params, velocity, loss = train_step(params, velocity, collocation(rng))
        if step % 20 == 19:
            print(step, float(loss))


if __name__ == "__main__":
    main()
