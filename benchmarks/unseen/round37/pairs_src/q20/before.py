"""Calibration of a plasma diagnostic: RealNVP posterior over parameters given a measured spectrum."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

PARAMS, SPECTRUM, HID, LAYERS, BATCH = 4, 12, 10, 3, 6


class Conditioner(nn.Module):
    n_out: int

    @nn.compact
    def __call__(self, x, context):
        h = nn.Dense(HID)(jnp.concatenate([x, context], axis=-1))
        h = nn.gelu(h)
        h = nn.Dense(HID)(h)
        h = nn.gelu(h)
        return nn.Dense(self.n_out, kernel_init=nn.initializers.normal(0.01))(h)


class Coupling(nn.Module):

    @nn.compact
    def __call__(self, x, context):
        x1, x2 = jnp.split(x, 2, axis=-1)
        scale, shift = jnp.split(Conditioner(x.shape[-1])(x1, context), 2, axis=-1)
        log_s = jnp.tanh(scale)
        x2 = x2 * jnp.exp(log_s) + shift
        return jnp.concatenate([x2, x1], axis=-1), jnp.sum(log_s, axis=-1)


class Flow(nn.Module):

    @nn.compact
    def __call__(self, theta, spectrum):
        context = nn.LayerNorm()(nn.Dense(HID)(spectrum))
        z, logdet = theta, 0.0
        for _ in range(LAYERS):
            z, ld = Coupling()(z, context)
            logdet = logdet + ld
        base = -0.5 * jnp.sum(z * z + jnp.log(2.0 * jnp.pi), axis=-1)
        return base + logdet


flow = Flow()
tx = optax.chain(
    optax.clip_by_global_norm(0.5),
    optax.scale_by_adam(b2=0.99),
    optax.add_decayed_weights(1e-4),
    optax.scale_by_learning_rate(1e-3),
)


def train_step(params, opt_state, theta, spectrum, weight):

    def loss_fn(p):
        log_q = flow.apply(p, theta, spectrum)
        return -jnp.sum(weight * log_q) / jnp.sum(weight)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def simulate(key):
    k1, k2, k3 = jax.random.split(key, 3)
    theta = jax.random.normal(k1, (BATCH, PARAMS))
    grid = jnp.linspace(-2.0, 2.0, SPECTRUM)
    line = theta[:, :1] * jnp.exp(-((grid - theta[:, 1:2]) ** 2))
    spectrum = line + 0.1 * jax.random.normal(k2, (BATCH, SPECTRUM))
    return theta, spectrum, jax.random.uniform(k3, (BATCH,), minval=0.5)


def main(dump=None):
    theta, spectrum, weight = simulate(jax.random.PRNGKey(99))
    params = flow.init(jax.random.PRNGKey(0), theta, spectrum)
    opt_state = tx.init(params)
    step = jax.jit(train_step)
    if dump:
        lowered = step.lower(params, opt_state, theta, spectrum, weight)
        with open(dump, "w") as f:
            f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(4):
        params, opt_state, loss = step(params, opt_state, *simulate(jax.random.PRNGKey(i)))
        print(i, float(loss))


if __name__ == "__main__":
    main(*sys.argv[1:])
