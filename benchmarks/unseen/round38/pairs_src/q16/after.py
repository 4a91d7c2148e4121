"""Physics-informed network for the viscous Burgers equation."""
import sys

import jax
import jax.numpy as jnp
import optax

NU = 0.01 / jnp.pi
LAYERS = (2, 8, 8, 1)


def init(key):
    params = []
    for i, o in zip(LAYERS[:-1], LAYERS[1:]):
        key, k = jax.random.split(key)
        params.append({"w": jax.random.normal(k, (i, o)) * (2.0 / (i + o)) ** 0.5, "b": jnp.zeros(o)})
    return params


def u(params, t, x):
    h = jnp.stack([t, x])
    for layer in params[:-1]:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    return (h @ params[-1]["w"] + params[-1]["b"])[0]


u_t = jax.grad(u, argnums=1)
u_x = jax.grad(u, argnums=2)
u_xx = jax.grad(u_x, argnums=2)


def residual(params, t, x):
    return u_t(params, t, x) + u(params, t, x) * u_x(params, t, x) - NU * u_xx(params, t, x)


def loss_fn(params, batch):
    over = lambda f: jax.vmap(f, in_axes=(None, 0, 0))
    r = over(residual)(params, batch["t"], batch["x"])
    ic = over(u)(params, jnp.zeros_like(batch["x0"]), batch["x0"]) + jnp.sin(jnp.pi * batch["x0"])
    bc = over(u)(params, batch["tb"], batch["xb"])
    return jnp.mean(r ** 2) + 10.0 * jnp.mean(ic ** 2) + 10.0 * jnp.mean(bc ** 2)


def make_optimizer(lr=1e-3):
    return optax.chain(
        optax.adam(lr),
        optax.clip_by_global_norm(1.0),
    )


tx = make_optimizer()


def train_step(params, opt_state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def make_batch(key):
    k = jax.random.split(key, 5)
    return {
        "t": jax.random.uniform(k[0], (16,)),
        "x": jax.random.uniform(k[1], (16,), minval=-1.0),
        "x0": jax.random.uniform(k[2], (8,), minval=-1.0),
        "tb": jax.random.uniform(k[3], (6,)),
        "xb": jnp.sign(jax.random.uniform(k[4], (6,), minval=-1.0)),
    }


def main(out):
    params = init(jax.random.PRNGKey(0))
    opt_state = tx.init(params)
    step = jax.jit(train_step)
    batch = make_batch(jax.random.PRNGKey(1))
    with open(out, "w") as f:
        f.write(step.lower(params, opt_state, batch).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(4):
        params, opt_state, loss = step(params, opt_state, make_batch(jax.random.PRNGKey(10 + i)))
        print(i, float(loss))


if __name__ == "__main__":
    main(sys.argv[1])
