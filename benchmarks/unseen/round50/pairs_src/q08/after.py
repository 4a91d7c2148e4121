"""PINN for a 1-D reaction-diffusion front (Fisher-KPP), one training step.

Batched: the net takes (n, 2) points, derivatives are directional (jvp),
Adam comes from optax.

usage: python after.py OUT.hlo
"""
import sys

import jax
import jax.numpy as jnp
import optax

WIDTH, DEPTH = 12, 3
COLLOC, WALL, INIT = 16, 6, 8
TX = optax.adam(2e-3, b1=0.9, b2=0.999, eps=1e-8)


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


def field(net, pts):
    """u at (n, 2) points of (x, t)."""
    *hidden, last = net
    h = pts
    for layer in hidden:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    return (h @ last["w"] + last["b"])[:, 0]


def d_dir(f, axis):
    """Derivative of a batched field along one coordinate."""
    def g(pts):
        along = jnp.zeros_like(pts).at[:, axis].set(1.0)
        return jax.jvp(f, (pts,), (along,))[1]
    return g


def points(x, t):
    return jnp.stack(jnp.broadcast_arrays(x, t), axis=-1)


def loss_fn(params, data):
    u = lambda pts: field(params["net"], pts)
    u_x, u_t = d_dir(u, 0), d_dir(u, 1)
    u_xx = d_dir(u_x, 0)

    inner = points(data["x"], data["t"])
    value = u(inner)
    growth = jnp.exp(params["log_r"]) * value * (1.0 - value)
    res = u_t(inner) - jnp.exp(params["log_d"]) * u_xx(inner) - growth
    pde = jnp.mean(jnp.exp(-0.5 * data["t"]) * jnp.square(res))

    # no flux through both walls; equally many points on each
    walls = jnp.concatenate([points(0.0, data["wall_t"]), points(1.0, data["wall_t"])])
    wall = 2.0 * jnp.mean(jnp.square(u_x(walls)))

    start = jnp.mean(jnp.square(u(points(data["init_x"], 0.0)) - data["init_u"]))
    return pde + 0.3 * wall + 10.0 * start, (pde, wall, start)


def step(params, opt, data):
    (loss, parts), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, data)
    updates, opt = TX.update(grads, opt, params)
    return optax.apply_updates(params, updates), opt, loss, parts


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
    opt = TX.init(params)
    run = jax.jit(step)
    text = run.lower(params, opt, make_batch(jax.random.PRNGKey(1))).compiler_ir("hlo").as_hlo_module().to_string()
    with open(path, "w") as f:
        f.write(text)
    for i in range(6):
        params, opt, loss, parts = run(params, opt, make_batch(jax.random.PRNGKey(100 + i)))
        print(i, float(loss), [float(p) for p in parts])


if __name__ == "__main__":
    main(sys.argv[1])
