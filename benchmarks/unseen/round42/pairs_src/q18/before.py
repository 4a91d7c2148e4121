"""Physics-informed network for the 1-D viscous Burgers equation, hand-made dense layers, optax."""
import functools
import sys

import jax
import jax.numpy as jnp
import optax

NU = 0.01 / jnp.pi
SIZES = (3, 10, 10, 1)
W_IC, W_BC = 20.0, 5.0


def init(key):
    params = []
    for i, o in zip(SIZES[:-1], SIZES[1:]):
        key, k = jax.random.split(key)
        params.append({"w": jax.random.normal(k, (i, o)) * jnp.sqrt(2.0 / (i + o)),
                       "b": jnp.zeros((o,))})
    return params


def net(params, x, t):
    # x in [-1, 1], periodic features in space
    h = jnp.stack([jnp.cos(jnp.pi * x), jnp.sin(jnp.pi * x), 2.0 * t - 1.0])
    for layer in params[:-1]:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    return (h @ params[-1]["w"] + params[-1]["b"])[0]


def residual(params, x, t):
    u = functools.partial(net, params)
    u_t = jax.grad(u, 1)(x, t)
    u_x, u_xx = jax.jvp(lambda s: jax.grad(u, 0)(s, t), (x,), (jnp.ones_like(x),))
    return u_t + u(x, t) * u_x - NU * u_xx


def loss_fn(params, batch):
    r = jax.vmap(residual, (None, 0, 0))(params, batch["x"], batch["t"])
    # causal weighting: late residuals count only once the early ones are small
    order = jnp.argsort(batch["t"])
    r2 = jnp.square(r)[order]
    w = jax.lax.stop_gradient(jnp.exp(-0.5 * (jnp.cumsum(r2) - r2)))
    pde = jnp.mean(w * r2)

    u0 = jax.vmap(net, (None, 0, None))(params, batch["x0"], 0.0)
    ic = jnp.mean(jnp.square(u0 + jnp.sin(jnp.pi * batch["x0"])))

    wall = jax.vmap(net, (None, None, 0))
    bc = jnp.mean(jnp.square(wall(params, -1.0, batch["tb"])) + jnp.square(wall(params, 1.0, batch["tb"])))
    total = pde + W_IC * ic + W_BC * bc
    return total, {"pde": pde, "ic": ic, "bc": bc}


sched = optax.exponential_decay(1e-3, transition_steps=500, decay_rate=0.9)
tx = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.scale_by_adam(b2=0.99),
    optax.scale_by_learning_rate(sched),
)


def train_step(params, opt_state, batch):
    (loss, aux), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    aux["gnorm"] = optax.global_norm(grads)
    return params, opt_state, loss, aux


def make_batch(key):
    ks = jax.random.split(key, 4)
    return {"x": jax.random.uniform(ks[0], (12,), minval=-1.0, maxval=1.0),
            "t": jax.random.uniform(ks[1], (12,)),
            "x0": jax.random.uniform(ks[2], (6,), minval=-1.0, maxval=1.0),
            "tb": jax.random.uniform(ks[3], (5,))}


def main(path):
    params = init(jax.random.PRNGKey(0))
    opt_state = tx.init(params)
    step = jax.jit(train_step)
    batch = make_batch(jax.random.PRNGKey(1))
    with open(path, "w") as f:
        f.write(step.lower(params, opt_state, batch).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(4):
        batch = make_batch(jax.random.PRNGKey(i + 1))
        params, opt_state, loss, aux = step(params, opt_state, batch)
        print(i, float(loss), {k: round(float(v), 5) for k, v in aux.items()})


if __name__ == "__main__":
    main(sys.argv[1])
