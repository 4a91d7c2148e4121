"""Physics-informed network for viscous Burgers with causal weighting in time (Wang et al.)."""
import sys
import jax
import jax.numpy as jnp
import optax

NU = 0.01 / jnp.pi
NT, NX, WIDTH = 6, 8, 10
CAUSAL_EPS = 2.0


def init(key, sizes=(2, WIDTH, WIDTH, 1)):
    params = []
    for cin, cout in zip(sizes[:-1], sizes[1:]):
        key, k = jax.random.split(key)
        w = jax.random.normal(k, (cin, cout)) * jnp.sqrt(2.0 / (cin + cout))
        params.append({"w": w, "b": jnp.zeros((cout,))})
    return params


def net(params, t, x):
    h = jnp.stack([t, x])
    for layer in params[:-1]:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    out = h @ params[-1]["w"] + params[-1]["b"]
    return out[0]


def residual(params, t, x):
    u = net(params, t, x)
    u_t = jax.grad(net, 1)(params, t, x)
    u_x, u_xx = jax.jvp(lambda s: jax.grad(net, 2)(params, t, s), (x,), (1.0,))
    return u_t + u * u_x - NU * u_xx


def slab_losses(params, ts, xs):
    over_x = jax.vmap(residual, (None, None, 0))
    res = jax.vmap(over_x, (None, 0, None))(params, ts, xs)
    return jnp.mean(res ** 2, axis=1)


def loss_fn(params, ts, xs, x0, tb):
    slabs = slab_losses(params, ts, xs)
    before = jnp.cumsum(slabs) - slabs
    weight = jnp.exp(-CAUSAL_EPS * before)
    pde = jnp.mean(weight * slabs)
    u0 = jax.vmap(net, (None, None, 0))(params, 0.0, x0)
    ic = jnp.mean((u0 + jnp.sin(jnp.pi * x0)) ** 2)
    left = jax.vmap(net, (None, 0, None))(params, tb, -1.0)
    right = jax.vmap(net, (None, 0, None))(params, tb, 1.0)
    bc = jnp.mean(left ** 2) + jnp.mean(right ** 2)
    return pde + 10.0 * ic + bc, (pde, ic, bc, weight.min())


opt = optax.adam(optax.exponential_decay(1e-3, 200, 0.9))


def step(params, state, ts, xs, x0, tb):
    (loss, aux), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, ts, xs, x0, tb)
    updates, state = opt.update(grads, state, params)
    return optax.apply_updates(params, updates), state, loss, aux


def main(out):
    params = init(jax.random.PRNGKey(0))
    state = opt.init(params)
    ts, xs = jnp.linspace(0.0, 1.0, NT), jnp.linspace(-1.0, 1.0, NX)
    args = (ts, xs, jnp.linspace(-1.0, 1.0, 5), jnp.linspace(0.0, 1.0, 4))
    fn = jax.jit(step)
    with open(out, "w") as f:
        f.write(fn.lower(params, state, *args).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(3):
        params, state, loss, aux = fn(params, state, *args)
        print(i, loss)


main(sys.argv[1])
