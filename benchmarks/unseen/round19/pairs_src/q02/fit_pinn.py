"""Physics-informed net for the 1d heat equation, Adam, jax.jit.
usage: fit_pinn.py [keep|donate]"""
import functools
import sys

import jax
import jax.numpy as jnp

WIDTHS = (2, 24, 24, 24, 1)
NU = 0.07


def init(key):
    ps = []
    for a, b in zip(WIDTHS[:-1], WIDTHS[1:]):
        key, k = jax.random.split(key)
        ps.append({"w": jax.random.normal(k, (a, b)) * (2.0 / (a + b)) ** 0.5, "b": jnp.zeros((b,))})
    return ps


def u(ps, x, t):
    h = jnp.stack([x, t])
    for p in ps[:-1]:
        h = jnp.tanh(h @ p["w"] + p["b"])
    return (h @ ps[-1]["w"] + ps[-1]["b"])[0]


def residual(ps, x, t):
    ut = jax.grad(u, 2)(ps, x, t)
    uxx = jax.grad(jax.grad(u, 1), 1)(ps, x, t)
    return ut - NU * uxx


def loss_fn(ps, xt, x0):
    r = jax.vmap(lambda p: residual(ps, p[0], p[1]))(xt)
    ic = jax.vmap(lambda x: u(ps, x, 0.0))(x0) - jnp.sin(jnp.pi * x0)
    return jnp.mean(r ** 2) + 10.0 * jnp.mean(ic ** 2)


def train_step(ps, m, v, count, xt, x0):
    loss, g = jax.value_and_grad(loss_fn)(ps, xt, x0)
    count = count + 1
    m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
    v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
    c1 = 1.0 - 0.9 ** count
    c2 = 1.0 - 0.999 ** count
    ps = jax.tree.map(lambda p, a, b: p - 1e-3 * (a / c1) / (jnp.sqrt(b / c2) + 1e-8), ps, m, v)
    return ps, m, v, count, loss


def main(mode):
    if mode == "donate":
        step = functools.partial(jax.jit, donate_argnums=(0, 1, 2))(train_step)
    else:
        step = jax.jit(train_step)
    key = jax.random.key(0)
    ps = init(key)
    m = jax.tree.map(jnp.zeros_like, ps)
    v = jax.tree.map(jnp.zeros_like, ps)
    count = jnp.zeros((), jnp.float32)
    for i in range(5):
        key, a, b = jax.random.split(key, 3)
        xt = jax.random.uniform(a, (128, 2))
        x0 = jax.random.uniform(b, (32,))
        ps, m, v, count, loss = step(ps, m, v, count, xt, x0)
    print(float(loss))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "keep")
