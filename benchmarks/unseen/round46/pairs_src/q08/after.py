"""PINN for the 1-d Allen-Cahn equation: u_t = d u_xx + 5 (u - u^3); optax optimizer."""
import sys

import jax
import jax.numpy as jnp
import optax

WIDTH, DEPTH, D = 16, 3, 1e-3


def init(key):
    sizes = [3] + [WIDTH] * DEPTH + [1]
    params = []
    for i, (m, n) in enumerate(zip(sizes[:-1], sizes[1:])):
        key, sub = jax.random.split(key)
        params.append({"w": jax.random.normal(sub, (m, n)) * jnp.sqrt(2.0 / (m + n)),
                       "b": jnp.zeros(n)})
    return params


def net(params, t, x):
    h = jnp.stack([t, jnp.cos(jnp.pi * x), jnp.sin(jnp.pi * x)])
    for layer in params[:-1]:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    return (h @ params[-1]["w"] + params[-1]["b"])[0]


def residual(params, t, x):
    u = net(params, t, x)
    u_t = jax.grad(net, 1)(params, t, x)
    u_xx = jax.grad(jax.grad(net, 2), 2)(params, t, x)
    return u_t - D * u_xx - 5.0 * (u - u ** 3)


def loss_fn(params, data):
    res = jax.vmap(residual, (None, 0, 0))(params, data["t"], data["x"])
    causal = jnp.exp(-1.5 * data["t"])
    pde = jnp.sum(causal * res ** 2) / jnp.sum(causal)

    u0 = jax.vmap(net, (None, None, 0))(params, 0.0, data["x0"])
    initial = jnp.mean((u0 - data["x0"] ** 2 * jnp.cos(jnp.pi * data["x0"])) ** 2)
    return pde + 50.0 * initial, {"pde": pde, "initial": initial}


def make_optimizer():
    schedule = optax.exponential_decay(2e-3, transition_steps=200, decay_rate=0.9)
    return optax.chain(
        optax.scale_by_adam(b1=0.9, b2=0.99),
        optax.clip_by_global_norm(1.0),
        optax.scale_by_learning_rate(schedule),
    )


optimizer = make_optimizer()


def step(params, opt_state, data):
    (loss, parts), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, data)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, loss, parts


def make_data(key):
    k1, k2, k3 = jax.random.split(key, 3)
    return {"t": jax.random.uniform(k1, (20,)),
            "x": jax.random.uniform(k2, (20,), minval=-1.0),
            "x0": jax.random.uniform(k3, (12,), minval=-1.0)}


def main(out):
    params = init(jax.random.PRNGKey(0))
    opt_state = optimizer.init(params)
    data = make_data(jax.random.PRNGKey(1))
    lowered = jax.jit(step).lower(params, opt_state, data)
    with open(out, "w") as f:
        f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    run = jax.jit(step)
    for i in range(3):
        params, opt_state, loss, parts = run(params, opt_state, make_data(jax.random.PRNGKey(10 + i)))
        print(i, float(loss), {k: float(v) for k, v in parts.items()})


if __name__ == "__main__":
    main(sys.argv[1])
