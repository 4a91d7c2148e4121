"""Physics-informed network for viscous Burgers: u_t + u u_x = nu u_xx on x in [-1, 1]."""
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

NU = 0.01 / np.pi
WIDTH = 12


class Dense(NamedTuple):
    bias: jax.Array
    kernel: jax.Array  # (out, in)


def init(key, layers=3):
    sizes = [2] + [WIDTH] * layers + [1]
    keys = jax.random.split(key, len(sizes) - 1)
    return tuple(
        Dense(jnp.zeros(n), jax.random.normal(k, (m, n)).T * np.sqrt(2.0 / (m + n)))
        for k, m, n in zip(keys, sizes[:-1], sizes[1:])
    )


def field(params, tx_points):
    """u at a batch of points (n, 2)."""
    *hidden, last = params
    h = tx_points
    for bias, kernel in hidden:
        h = jnp.tanh(jnp.einsum("ni,oi->no", h, kernel) + bias)
    return jnp.einsum("ni,oi->no", h, last.kernel)[:, 0] + last.bias


def derivatives(params, points):
    e_t = jnp.zeros_like(points).at[:, 0].set(1.0)
    e_x = jnp.zeros_like(points).at[:, 1].set(1.0)
    u_of = lambda p: field(params, p)
    d_x = lambda p: jax.jvp(u_of, (p,), (e_x,))
    (u, u_x), (_, u_xx) = jax.jvp(d_x, (points,), (e_x,))
    _, u_t = jax.jvp(u_of, (points,), (e_t,))
    return u, u_t, u_x, u_xx


def objective(params, batch):
    n0, nb = batch["x0"].shape[0], batch["tb"].shape[0]
    edge = jnp.concatenate([
        jnp.stack([jnp.zeros(n0), batch["x0"]], 1),
        jnp.stack([batch["tb"], -jnp.ones(nb)], 1),
        jnp.stack([batch["tb"], jnp.ones(nb)], 1),
    ])
    u_edge = field(params, edge)
    start, walls = u_edge[:n0], u_edge[n0:]
    u, u_t, u_x, u_xx = derivatives(params, jnp.stack([batch["t"], batch["x"]], 1))
    pde = jnp.mean(jnp.square(u_t + u * u_x - NU * u_xx))
    ic = jnp.mean(jnp.square(start + jnp.sin(jnp.pi * batch["x0"])))
    return pde + 10.0 * ic + 2.0 * jnp.mean(jnp.square(walls))


tx = optax.chain(optax.scale_by_adam(), optax.scale(-2e-3))


def step(params, opt_state, batch):
    loss, grads = jax.value_and_grad(objective)(params, batch)
    updates, opt_state = tx.update(grads, opt_state)
    return jax.tree.map(jnp.add, params, updates), opt_state, loss


def collocation(n, seed):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        yield {
            "t": rng.uniform(0, 1, 32).astype(np.float32),
            "x": rng.uniform(-1, 1, 32).astype(np.float32),
            "x0": rng.uniform(-1, 1, 16).astype(np.float32),
            "tb": rng.uniform(0, 1, 8).astype(np.float32),
        }


def main(steps=6):
    params = init(jax.random.key(0))
    opt_state = tx.init(params)
    fn = jax.jit(step)
    for i, batch in enumerate(collocation(steps, 5)):
        params, opt_state, loss = fn(params, opt_state, batch)
        print(i, float(loss))


if __name__ == "__main__":
    main()
