"""Conditional coupling flow over calorimeter shower variables, trained by maximum likelihood.

usage: before.py OUT.hlo
"""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

N_VAR, N_COND, HID, N_LAYER, BATCH = 6, 2, 8, 3, 10


class Conditioner(nn.Module):
    """Shift and log scale of the variables the mask hides."""

    @nn.compact
    def __call__(self, kept, cond):
        h = jnp.concatenate([kept, cond])
        h = nn.tanh(nn.Dense(HID, name="hidden")(h))
        out = nn.Dense(2 * N_VAR, name="out")(h)
        shift, log_scale = jnp.split(out, 2)
        return shift, 1.5 * jnp.tanh(log_scale / 1.5)


def masks():
    even = (np.arange(N_VAR) % 2).astype(np.float32)
    return [even if i % 2 == 0 else 1.0 - even for i in range(N_LAYER)]


def init_params(key):
    keys = jax.random.split(key, N_LAYER)
    x, c = jnp.zeros((N_VAR,)), jnp.zeros((N_COND,))
    return {f"layer_{i}": Conditioner().init(keys[i], x, c) for i in range(N_LAYER)}


def log_prob(params, x, cond):
    """Log density of one shower."""
    z, log_det = x, 0.0
    for i, mask in enumerate(masks()):
        shift, log_scale = Conditioner().apply(params[f"layer_{i}"], z * mask, cond)
        log_scale = log_scale * (1.0 - mask)
        z = z * jnp.exp(log_scale) + shift * (1.0 - mask)
        log_det = log_det + jnp.sum(log_scale)
    base = -0.5 * jnp.sum(jnp.square(z)) - 0.5 * N_VAR * jnp.log(2.0 * jnp.pi)
    return base + log_det


def loss_fn(params, x, cond, weight):
    lp = jax.vmap(log_prob, in_axes=(None, 0, 0))(params, x, cond)
    return -jnp.sum(weight * lp) / jnp.sum(weight)


tx = optax.adam(2e-3, b2=0.99)


def train_step(params, opt_state, x, cond, weight):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, cond, weight)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def main(path, steps=4):
    params = init_params(jax.random.PRNGKey(0))
    opt_state = tx.init(params)
    step = jax.jit(train_step)
    rng = np.random.default_rng(3)
    for i in range(steps):
        x = rng.normal(size=(BATCH, N_VAR)).astype(np.float32)
        cond = rng.normal(size=(BATCH, N_COND)).astype(np.float32)
        weight = rng.uniform(0.5, 1.5, size=(BATCH,)).astype(np.float32)
        if i == 0:
            lowered = step.lower(params, opt_state, x, cond, weight)
            with open(path, "w") as f:
                f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
        params, opt_state, loss = step(params, opt_state, x, cond, weight)
        print(i, float(loss))


if __name__ == "__main__":
    main(sys.argv[1])
