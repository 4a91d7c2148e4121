"""Physics-informed network for viscous Burgers: u_t + u u_x = nu u_xx on x in [-1, 1]."""
import jax
import jax.numpy as jnp
import numpy as np
import optax

NU = 0.01 / np.pi
WIDTH = 12


def init(key, layers=3):
    sizes = [2] + [WIDTH] * layers + [1]
    params = []
    for k, m, n in zip(jax.random.split(key, len(sizes) - 1), sizes[:-1], sizes[1:]):
        params.append({"w": jax.random.normal(k, (m, n)) * np.sqrt(2.0 / (m + n)), "b": jnp.zeros(n)})
    return params


def net(params, t, x):
    h = jnp.stack([t, x])
    for layer in params[:-1]:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    return (h @ params[-1]["w"] + params[-1]["b"])[0]


def residual(params, t, x):
    u = net(params, t, x)
    u_t = jax.grad(net, 1)(params, t, x)
    u_x = jax.grad(net, 2)(params, t, x)
    u_xx = jax.grad(jax.grad(net, 2), 2)(params, t, x)
    return u_t + u * u_x - NU * u_xx


def loss_fn(params, batch):
    r = jax.vmap(residual, (None, 0, 0))(params, batch["t"], batch["x"])
    u0 = jax.vmap(net, (None, None, 0))(params, 0.0, batch["x0"])
    left = jax.vmap(net, (None, 0, None))(params, batch["tb"], -1.0)
    right = jax.vmap(net, (None, 0, None))(params, batch["tb"], 1.0)
    ic = jnp.mean((u0 + jnp.sin(jnp.pi * batch["x0"])) ** 2)
    bc = jnp.mean(left ** 2) + jnp.mean(right ** 2)
    return jnp.mean(r ** 2) + 10.0 * ic + bc


tx = optax.adam(2e-3)


def step(params, opt_state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


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
