"""Physics-informed network for heat flow in a rod with unknown conductivity."""
import sys

import jax
import jax.numpy as jnp

WIDTH, DEPTH = 20, 3


def init(key):
    sizes = [2] + [WIDTH] * DEPTH + [1]
    params = {}
    for i, (n, m) in enumerate(zip(sizes, sizes[1:])):
        key, sub = jax.random.split(key)
        params[f"dense{i}"] = {"kernel": jax.random.normal(sub, (n, m)) * (1 / n) ** 0.5, "bias": jnp.zeros(m)}
    return {"net": params, "log_k": jnp.zeros(())}


def temperature(net, x, t):
    h = jnp.stack([x, t])
    for i in range(DEPTH):
        h = jnp.sin(h @ net[f"dense{i}"]["kernel"] + net[f"dense{i}"]["bias"])
    return (h @ net[f"dense{DEPTH}"]["kernel"] + net[f"dense{DEPTH}"]["bias"])[0]


def residual(params, x, t):
    u_t = jax.grad(temperature, argnums=2)(params["net"], x, t)
    u_xx = jax.grad(jax.grad(temperature, argnums=1), argnums=1)(params["net"], x, t)
    return u_t - jnp.exp(params["log_k"]) * u_xx


def loss_fn(params, batch):
    pde = jnp.mean(jax.vmap(lambda p: residual(params, p[0], p[1]))(batch["inside"]) ** 2)
    pred = jax.vmap(lambda p: temperature(params["net"], p[0], p[1]))(batch["sensors"])
    data = jnp.mean((pred - batch["readings"]) ** 2)
    return pde + 10.0 * data, {"pde": pde, "data": data}


def train_step(state, batch):
    (loss, parts), grads = jax.value_and_grad(loss_fn, has_aux=True)(state["params"], batch)
    norm = jnp.sqrt(jnp.sum(grads["net"]["dense0"]["kernel"] ** 2))
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, state["momentum"], grads)
    params = jax.tree.map(lambda p, m: p - 2e-3 * m, state["params"], momentum)
    average = jax.tree.map(lambda a, p: 0.995 * a + 0.005 * p, state["average"], params)
    worst = jnp.max(jnp.abs(batch["readings"]))
    new = {"params": params, "momentum": momentum, "average": average}
    return new, {"loss": loss, "norm": norm, "worst": worst, **parts}


def make_batch(key, n=24, m=12):
    k1, k2, k3 = jax.random.split(key, 3)
    sensors = jax.random.uniform(k2, (m, 2))
    truth = jnp.exp(-0.3 * jnp.pi ** 2 * sensors[:, 1]) * jnp.sin(jnp.pi * sensors[:, 0])
    return {"inside": jax.random.uniform(k1, (n, 2)), "sensors": sensors,
            "readings": truth + 0.01 * jax.random.normal(k3, (m,))}


def main():
    key = jax.random.PRNGKey(0)
    params = init(key)
    state = {"params": params, "momentum": jax.tree.map(jnp.zeros_like, params), "average": params}
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w") as f:
            f.write(jax.jit(train_step).lower(state, make_batch(key)).compiler_ir("hlo").as_hlo_text())
        return
    step = jax.jit(train_step)
    for i in range(60):
        key, sub = jax.random.split(key)
        state, info = step(state, make_batch(sub))
        if (i + 1) % 20 == 0:
            print(i + 1, float(info["loss"]), float(jnp.exp(state["params"]["log_k"])))


if __name__ == "__main__":
    main()
