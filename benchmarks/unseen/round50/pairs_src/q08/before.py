"""PINN for a 1-D reaction-diffusion front (Fisher-KPP), one training step.

usage: python before.py OUT.hlo
"""
import sys

import jax
import jax.numpy as jnp

WIDTH, DEPTH = 12, 3
COLLOC, WALL, INIT = 16, 6, 8
LR, B1, B2, EPS = 2e-3, 0.9, 0.999, 1e-8


def init_params(key):
    sizes = [2] + [WIDTH] * DEPTH + [1]
    layers = []
    for n_in, n_out in zip(sizes[:-1], sizes[1:]):
        key, sub = jax.random.split(key)
        layers.append({
            "w": jax.random.normal(sub, (n_in, n_out)) * jnp.sqrt(2.0 / (n_in + n_out)),
            "b": jnp.zeros((n_out,)),
        })
    return {"net": layers, "log_d": jnp.array(-1.3), "log_r": jnp.array(0.2)}


def init_opt(params):
    zeros = jax.tree_util.tree_map(jnp.zeros_like, params)
    return {"m": zeros, "v": zeros, "t": jnp.zeros((), jnp.int32)}


def u_point(net, x, t):
    """The field at one point; scalars in, scalar out."""
    h = jnp.stack([x, t])
    for layer in net[:-1]:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    out = h @ net[-1]["w"] + net[-1]["b"]
    return out[0]


def residual_point(params, x, t):
    net = params["net"]
    u = u_point(net, x, t)
    u_t = jax.grad(u_point, argnums=2)(net, x, t)
    u_xx = jax.grad(jax.grad(u_point, argnums=1), argnums=1)(net, x, t)
    d, r = jnp.exp(params["log_d"]), jnp.exp(params["log_r"])
    return u_t - d * u_xx - r * u * (1.0 - u)


def loss_fn(params, data):
    net = params["net"]
    res = jax.vmap(residual_point, in_axes=(None, 0, 0))(params, data["x"], data["t"])
    pde = jnp.mean(res ** 2 * jnp.exp(-0.5 * data["t"]))

    # no flux through both walls
    flux = jax.vmap(jax.grad(u_point, argnums=1), in_axes=(None, 0, 0))
    left = flux(net, jnp.zeros(WALL), data["wall_t"])
    right = flux(net, jnp.ones(WALL), data["wall_t"])
    wall = jnp.mean(left ** 2) + jnp.mean(right ** 2)

    u0 = jax.vmap(u_point, in_axes=(None, 0, 0))(net, data["init_x"], jnp.zeros(INIT))
    start = jnp.mean((u0 - data["init_u"]) ** 2)
    return pde + 0.3 * wall + 10.0 * start, (pde, wall, start)


def step(params, opt, data):
    (loss, parts), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, data)
    t = opt["t"] + 1
    tmap = jax.tree_util.tree_map
    m = tmap(lambda a, g: B1 * a + (1 - B1) * g, opt["m"], grads)
    v = tmap(lambda a, g: B2 * a + (1 - B2) * g * g, opt["v"], grads)
    c1 = 1 - B1 ** t.astype(jnp.float32)
    c2 = 1 - B2 ** t.astype(jnp.float32)
    params = tmap(lambda p, a, b: p - LR * (a / c1) / (jnp.sqrt(b / c2) + EPS), params, m, v)
    return params, {"m": m, "v": v, "t": t}, loss, parts


def make_batch(key):
    k = jax.random.split(key, 4)
    x0 = jax.random.uniform(k[3], (INIT,))
    return {
        "x": jax.random.uniform(k[0], (COLLOC,)),
        "t": jax.random.uniform(k[1], (COLLOC,)),
        "wall_t": jax.random.uniform(k[2], (WALL,)),
        "init_x": x0,
        "init_u": jax.nn.sigmoid(-20.0 * (x0 - 0.3)),
    }


def main(path):
    params = init_params(jax.random.PRNGKey(0))
    opt = init_opt(params)
    run = jax.jit(step)
    text = run.lower(params, opt, make_batch(jax.random.PRNGKey(1))).compiler_ir("hlo").as_hlo_module().to_string()
    with open(path, "w") as f:
        f.write(text)
    for i in range(6):
        params, opt, loss, parts = run(params, opt, make_batch(jax.random.PRNGKey(100 + i)))
        print(i, float(loss), [float(p) for p in parts])


if __name__ == "__main__":
    main(sys.argv[1])
