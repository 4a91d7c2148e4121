"""Physics-informed network for Burgers' equation with causal weighting of time slabs."""
import os
import sys

import jax
import jax.numpy as jnp
import optax

NU = 0.01 / jnp.pi
SLABS = 4
TOL = 1.0


def init_params(key, sizes=(2, 12, 12, 1)):
    params = []
    for cin, cout in zip(sizes[:-1], sizes[1:]):
        key, sub = jax.random.split(key)
        w = jax.random.normal(sub, (cin, cout)) * jnp.sqrt(2.0 / (cin + cout))
        params.append({"w": w, "b": jnp.zeros(cout)})
    return params


def net(params, t, x):
    h = jnp.stack([t, x])
    for layer in params[:-1]:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    out = h @ params[-1]["w"] + params[-1]["b"]
    return out[0]


def residual(params, t, x):
    u = net(params, t, x)
    u_t = jax.grad(net, argnums=1)(params, t, x)
    u_x = jax.grad(net, argnums=2)(params, t, x)
    u_xx = jax.grad(jax.grad(net, argnums=2), argnums=2)(params, t, x)
    return u_t + u * u_x - NU * u_xx


def causal_loss(params, t, x):
    r = jax.vmap(residual, in_axes=(None, 0, 0))(params, t, x)
    per_slab = jnp.mean(jnp.square(r).reshape(SLABS, -1), axis=1)
    past = jnp.cumsum(per_slab) - per_slab
    weight = jax.lax.stop_gradient(jnp.exp(-TOL * past))
    return jnp.mean(weight * per_slab), weight


def data_loss(params, x0, u0, tb):
    pred = jax.vmap(net, in_axes=(None, None, 0))(params, 0.0, x0)
    left = jax.vmap(net, in_axes=(None, 0, None))(params, tb, -1.0)
    right = jax.vmap(net, in_axes=(None, 0, None))(params, tb, 1.0)
    return jnp.mean((pred - u0) ** 2), jnp.mean(left**2) + jnp.mean(right**2)


def total_loss(params, batch):
    pde, weight = causal_loss(params, batch["t"], batch["x"])
    init, wall = data_loss(params, batch["x0"], batch["u0"], batch["tb"])
    loss = pde + 20.0 * init + wall
    return loss, {"pde": pde, "init": init, "wall": wall, "last_weight": weight[-1]}


optimizer = optax.chain(
    optax.scale_by_adam(b1=0.9, b2=0.999),
    optax.scale_by_schedule(optax.exponential_decay(1e-3, 2000, 0.9)),
    optax.scale(-1.0),
)


def step(params, opt_state, batch):
    (loss, parts), grads = jax.value_and_grad(total_loss, has_aux=True)(params, batch)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, loss, parts


def make_batch(key, n=32):
    k1, k2, k3, k4 = jax.random.split(key, 4)
    x0 = jax.random.uniform(k3, (8,), minval=-1.0, maxval=1.0)
    return {
        "t": jnp.sort(jax.random.uniform(k1, (n,))),
        "x": jax.random.uniform(k2, (n,), minval=-1.0, maxval=1.0),
        "x0": x0,
        "u0": -jnp.sin(jnp.pi * x0),
        "tb": jax.random.uniform(k4, (6,)),
    }


def main(path):
    key = jax.random.PRNGKey(18)
    params = init_params(key)
    opt_state = optimizer.init(params)
    batch = make_batch(key)
    train = jax.jit(step)
    text = train.lower(params, opt_state, batch).compiler_ir("hlo").as_hlo_module().to_string()
    with open(path, "w") as f:
        f.write(text)
    for i in range(3):
        params, opt_state, loss, parts = train(params, opt_state, make_batch(jax.random.PRNGKey(i)))
        print(i, float(loss), {k: float(v) for k, v in parts.items()})


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "a.hlo"))
