"""Physics informed network for the Fisher-KPP equation (invasion fronts):
u_t = D u_xx + r u (1 - u), D and r learned with the field."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

N_COL = 12
N_OBS = 6
N_INIT = 5


class Field(nn.Module):
    width: int = 12

    @nn.compact
    def __call__(self, t, x):
        log_d = self.param("log_d", nn.initializers.constant(-2.0), ())
        log_r = self.param("log_r", nn.initializers.constant(0.0), ())
        h = jnp.stack([t, x, jnp.sin(jnp.pi * x), jnp.cos(jnp.pi * x)])
        h = jnp.tanh(nn.Dense(self.width)(h))
        h = h + jnp.tanh(nn.Dense(self.width)(h))
        u = jax.nn.sigmoid(nn.Dense(1)(h)[0])
        return u, (jnp.exp(log_d), jnp.exp(log_r))


model = Field()


def residual(params, t, x):
    def u_of(t, x):
        return model.apply(params, t, x)[0]

    u, (d, r) = model.apply(params, t, x)
    u_t = jax.grad(u_of, argnums=0)(t, x)
    u_x = lambda x_: jax.grad(u_of, argnums=1)(t, x_)
    _, u_xx = jax.jvp(u_x, (x,), (jnp.ones_like(x),))
    return u_t - d * u_xx - r * u * (1 - u)


def loss_fn(params, batch):
    res = jax.vmap(residual, (None, 0, 0))(params, *batch["col"])
    t, x, u = batch["obs"]
    fit = jax.vmap(lambda a, b: model.apply(params, a, b)[0])(t, x) - u
    x0, u0 = batch["init"]
    start = jax.vmap(lambda b: model.apply(params, jnp.zeros_like(b), b)[0])(x0) - u0
    terms = {
        "pde": jnp.mean(res ** 2),
        "obs": jnp.mean(fit ** 2),
        "init": jnp.mean(start ** 2),
    }
    return terms["pde"] + 10.0 * terms["obs"] + 5.0 * terms["init"], terms


def make_optimizer():
    lr = optax.exponential_decay(3e-3, transition_steps=500, decay_rate=0.9)
    return optax.chain(
        optax.scale_by_adam(b1=0.9, b2=0.99),
        optax.clip_by_global_norm(1.0),
        optax.scale_by_learning_rate(lr),
    )


def train_step(params, opt_state, batch):
    (loss, terms), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch)
    updates, opt_state = make_optimizer().update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss, terms


def make_batch(key):
    k = jax.random.split(key, 6)
    uni = jax.random.uniform
    x0 = uni(k[5], (N_INIT,), minval=-1.0)
    return {
        "col": (uni(k[0], (N_COL,)), uni(k[1], (N_COL,), minval=-1.0)),
        "obs": (uni(k[2], (N_OBS,)), uni(k[3], (N_OBS,), minval=-1.0), uni(k[4], (N_OBS,))),
        "init": (x0, jnp.exp(-20 * x0 ** 2)),
    }


def main(path=None, steps=3):
    params = model.init(jax.random.key(0), jnp.zeros(()), jnp.zeros(()))
    opt_state = make_optimizer().init(params)
    step = jax.jit(train_step)
    if path:
        low = step.lower(params, opt_state, make_batch(jax.random.key(1)))
        with open(path, "w") as f:
            f.write(low.compiler_ir("hlo").as_hlo_module().to_string())
    losses = []
    for i in range(steps):
        params, opt_state, loss, _ = step(params, opt_state, make_batch(jax.random.key(i + 1)))
        losses.append(float(loss))
    return losses


if __name__ == "__main__":
    print(main(sys.argv[1] if len(sys.argv) > 1 else None))
