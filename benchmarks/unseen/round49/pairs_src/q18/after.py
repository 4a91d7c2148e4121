"""Physics-informed network for Burgers' equation, optax adam with a cosine schedule."""
import sys
import jax
import jax.numpy as jnp
import optax

NU = 0.01 / jnp.pi
WIDTHS = (2, 16, 16, 1)


def init(key):
    params = []
    for n_in, n_out in zip(WIDTHS[:-1], WIDTHS[1:]):
        key, sub = jax.random.split(key)
        bound = (6.0 / (n_in + n_out)) ** 0.5
        params.append({"w": jax.random.uniform(sub, (n_in, n_out), minval=-bound, maxval=bound),
                       "b": jnp.zeros(n_out)})
    return params


def u(params, x, t):
    h = jnp.stack([x, t])
    for layer in params[:-1]:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    out = h @ params[-1]["w"] + params[-1]["b"]
    return out[0]


def residual(params, x, t):
    u_x = jax.grad(u, argnums=1)
    u_xx = jax.grad(u_x, argnums=1)
    u_t = jax.grad(u, argnums=2)
    return u_t(params, x, t) + u(params, x, t) * u_x(params, x, t) - NU * u_xx(params, x, t)


def loss_fn(params, batch):
    r = jax.vmap(residual, (None, 0, 0))(params, batch["xf"], batch["tf"])
    u0 = jax.vmap(u, (None, 0, None))(params, batch["x0"], 0.0)
    lo = jax.vmap(u, (None, None, 0))(params, -1.0, batch["tb"])
    hi = jax.vmap(u, (None, None, 0))(params, 1.0, batch["tb"])
    pde = jnp.square(jnp.mean(r))
    start = jnp.mean(jnp.square(u0 + jnp.sin(jnp.pi * batch["x0"])))
    edge = jnp.mean(jnp.square(lo)) + jnp.mean(jnp.square(hi))
    return pde + 10.0 * start + edge, {"pde": pde, "start": start, "edge": edge}


schedule = optax.cosine_decay_schedule(2e-3, decay_steps=5000)
tx = optax.adam(schedule)


def step(params, opt_state, batch):
    (loss, parts), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, loss, parts


def batch_for(key):
    k = jax.random.split(key, 4)
    return {
        "xf": jax.random.uniform(k[0], (32,), minval=-1.0, maxval=1.0),
        "tf": jax.random.uniform(k[1], (32,)),
        "x0": jax.random.uniform(k[2], (12,), minval=-1.0, maxval=1.0),
        "tb": jax.random.uniform(k[3], (10,)),
    }


if __name__ == "__main__":
    params = init(jax.random.PRNGKey(0))
    opt_state = tx.init(params)
    batch = batch_for(jax.random.PRNGKey(1))
    with open(sys.argv[1], "w") as f:
        f.write(jax.jit(step).lower(params, opt_state, batch).compiler_ir("hlo").as_hlo_module().to_string())
    run = jax.jit(step)
    for i in range(3):
        params, opt_state, loss, parts = run(params, opt_state, batch_for(jax.random.PRNGKey(i + 1)))
        print(i, float(loss), {k: float(v) for k, v in parts.items()})
