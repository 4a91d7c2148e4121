"""Causal physics-informed network for the Allen-Cahn equation,
u_t = 1e-4 u_xx - 5 u^3 + 5 u on x in [-1, 1], t in [0, 1].
Time is cut into slabs; a slab counts only as far as the ones before it are
already solved."""
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

SLABS, XS, WIDTH, MODES = 6, 8, 10, 2
EPS_CAUSAL = 1.5


def init(key):
    sizes = [2 * MODES + 2, WIDTH, WIDTH, 1]
    layers = []
    for k, m, n in zip(jax.random.split(key, 3), sizes[:-1], sizes[1:]):
        layers.append({"w": jax.random.normal(k, (m, n)) * np.sqrt(2.0 / (m + n)),
                       "b": jnp.zeros(n)})
    return layers


def net(params, t, x):
    # periodic in x through its features
    feats = [t, jnp.ones_like(t)]
    for m in range(1, MODES + 1):
        feats += [jnp.cos(m * jnp.pi * x), jnp.sin(m * jnp.pi * x)]
    h = jnp.stack(feats)
    for layer in params[:-1]:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    last = params[-1]
    return (h @ last["w"] + last["b"])[0]


def residual(params, t, x):
    u = net(params, t, x)
    u_t = jax.grad(net, 1)(params, t, x)
    u_xx = jax.grad(jax.grad(net, 2), 2)(params, t, x)
    return u_t - 1e-4 * u_xx + 5.0 * u ** 3 - 5.0 * u


def slab_losses(params, ts, xs):
    grid = jax.vmap(jax.vmap(residual, (None, None, 0)), (None, 0, None))
    return jnp.mean(grid(params, ts, xs) ** 2, axis=1)


def loss_fn(params, ts, xs, x0, u0):
    slabs = slab_losses(params, ts, xs)
    before = jnp.cumsum(slabs) - slabs
    weight = jax.lax.stop_gradient(jnp.exp(-EPS_CAUSAL * before))
    pde = jnp.mean(weight * slabs)
    start = jax.vmap(net, (None, None, 0))(params, jnp.float32(0.0), x0)
    ic = jnp.mean((start - u0) ** 2)
    return 100.0 * ic + pde, (ic, pde, weight[-1])


tx = optax.adam(optax.exponential_decay(1e-3, 500, 0.9))


def train_step(params, opt_state, ts, xs, x0, u0):
    (loss, aux), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, ts, xs, x0, u0)
    updates, opt_state = tx.update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state, loss, aux


def points(rng):
    edges = np.arange(SLABS) / SLABS
    ts = (edges + rng.random(SLABS) / SLABS).astype(np.float32)
    xs = rng.uniform(-1, 1, XS).astype(np.float32)
    x0 = np.linspace(-1, 1, XS, dtype=np.float32)
    return ts, xs, x0, (x0 ** 2 * np.cos(np.pi * x0)).astype(np.float32)


def main(out):
    rng = np.random.default_rng(89)
    params = init(jax.random.PRNGKey(2))
    state = tx.init(params)
    step = jax.jit(train_step)
    args = points(rng)
    text = step.lower(params, state, *args).compiler_ir("hlo").as_hlo_module().to_string()
    with open(out, "w") as f:
        f.write(text)
    for i in range(3):
        params, state, loss, aux = step(params, state, *points(rng))
        print(i, float(loss), [float(a) for a in aux])


if __name__ == "__main__":
    main(sys.argv[1])
