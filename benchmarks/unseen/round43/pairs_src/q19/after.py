"""Physics-informed net for viscous Burgers with causal time weighting (JAX)."""
import sys

import jax
import jax.numpy as jnp
import optax

SLICES, XPTS, HID, BC = 4, 6, 10, 8
NU = 0.01 / jnp.pi
CAUSAL = 1.5


def init_params(key):
    dims = [2, HID, HID, 1]
    out = []
    for k, i, o in zip(jax.random.split(key, 3), dims[:-1], dims[1:]):
        out.append({"w": jax.random.normal(k, (i, o)) * jnp.sqrt(2.0 / (i + o)), "b": jnp.zeros(o)})
    return out


def net(params, t, x):
    h = jnp.stack([t, x])
    for lay in params[:-1]:
        h = jnp.tanh(h @ lay["w"] + lay["b"])
    return (h @ params[-1]["w"] + params[-1]["b"])[0]


def residual(params, t, x):
    u = net(params, t, x)
    u_t = jax.grad(net, 1)(params, t, x)
    u_x = jax.grad(net, 2)(params, t, x)
    u_xx = jax.grad(jax.grad(net, 2), 2)(params, t, x)
    return u_t + u * u_x - NU * u_xx


def causal_residual(params, ts, xs):
    r = jax.vmap(lambda t, row: jax.vmap(lambda x: residual(params, t, x))(row))(ts, xs)
    per_slice = jnp.mean(r ** 2, axis=1)
    earlier = jnp.cumsum(per_slice) - per_slice
    w = jnp.exp(-CAUSAL * earlier)
    return jnp.mean(w * per_slice), w


def loss_fn(params, batch):
    ts, xs, x0, tb = batch
    pde, w = causal_residual(params, ts, xs)
    u0 = jax.vmap(lambda x: net(params, 0.0 * x, x))(x0)
    ic = jnp.mean((u0 + jnp.sin(jnp.pi * x0)) ** 2)
    left = jax.vmap(lambda t: net(params, t, -jnp.ones_like(t)))(tb)
    right = jax.vmap(lambda t: net(params, t, jnp.ones_like(t)))(tb)
    bc = jnp.mean(left ** 2) + jnp.mean(right ** 2)
    return pde + 20.0 * ic + bc, (pde, ic, bc, w.min())


schedule = optax.exponential_decay(3e-3, transition_steps=500, decay_rate=0.9)
tx = optax.chain(
    optax.scale_by_adam(),
    optax.clip_by_global_norm(1.0),
    optax.scale_by_learning_rate(schedule),
)


def train_step(params, opt_state, batch):
    (loss, aux), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss, aux


def main(path):
    params = init_params(jax.random.PRNGKey(19))
    state = tx.init(params)
    step = jax.jit(train_step)
    key = jax.random.PRNGKey(1)
    for i in range(3):
        k1, k2, k3, k4 = jax.random.split(jax.random.fold_in(key, i), 4)
        batch = (jnp.sort(jax.random.uniform(k1, (SLICES,))),
                 jax.random.uniform(k2, (SLICES, XPTS), minval=-1.0, maxval=1.0),
                 jax.random.uniform(k3, (BC,), minval=-1.0, maxval=1.0),
                 jax.random.uniform(k4, (BC,)))
        if i == 0:
            with open(path, "w") as f:
                f.write(step.lower(params, state, batch).compiler_ir("hlo").as_hlo_module().to_string())
        params, state, loss, aux = step(params, state, batch)
        print(i, float(loss), [round(float(v), 5) for v in aux])


if __name__ == "__main__":
    main(sys.argv[1])
