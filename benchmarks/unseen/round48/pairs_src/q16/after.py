"""Diffusion (EDM preconditioning) on household load curves, flax model, EMA of the weights.

Run: JAX_PLATFORMS=cpu python after.py
"""
import os
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "b.hlo")
HOURS, WIDTH, BATCH = 24, 16, 8
SIGMA_DATA, P_MEAN, P_STD = 0.5, -1.2, 1.2
EMA_DECAY = 0.999


class TrainState(NamedTuple):
    step: jax.Array
    params: Any
    ema_params: Any
    opt_state: Any


class FiLMBlock(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x, cond):
        h = nn.LayerNorm()(x)
        scale, shift = jnp.split(nn.Dense(2 * self.width)(cond), 2, axis=-1)
        h = h * (1 + scale) + shift
        h = nn.silu(nn.Dense(2 * self.width)(h))
        return x + nn.Dense(self.width)(h)


class Denoiser(nn.Module):
    width: int = WIDTH

    @nn.compact
    def __call__(self, x, c_noise, weekday):
        freqs = jnp.exp(jnp.linspace(0.0, 3.0, self.width // 2))
        angles = c_noise[:, None] * freqs
        emb = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)
        emb = nn.silu(nn.Dense(self.width)(emb) + nn.Embed(7, self.width)(weekday))
        h = nn.Dense(self.width)(x)
        h = FiLMBlock(self.width)(h, emb)
        return nn.Dense(x.shape[-1])(h)


model = Denoiser()
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.adamw(1e-3, b2=0.99, weight_decay=1e-4),
)


def precondition(params, noisy, sigma, weekday):
    s2 = sigma ** 2 + SIGMA_DATA ** 2
    c_skip = SIGMA_DATA ** 2 / s2
    c_out = sigma * SIGMA_DATA / jnp.sqrt(s2)
    c_in = 1.0 / jnp.sqrt(s2)
    c_noise = jnp.log(sigma) / 4
    f = model.apply({"params": params}, c_in[:, None] * noisy, c_noise, weekday)
    return c_skip[:, None] * noisy + c_out[:, None] * f


def loss_weight(sigma):
    # min-SNR, gamma = 5
    return jnp.minimum(1.0 / sigma ** 2, 5.0)


def loss_fn(params, key, x, weekday):
    draws = jax.random.normal(key, (x.shape[0], x.shape[1] + 1))
    sigma = jnp.exp(P_MEAN + P_STD * draws[:, 0])
    noise = draws[:, 1:]
    denoised = precondition(params, x + sigma[:, None] * noise, sigma, weekday)
    per_curve = jnp.mean((denoised - x) ** 2, axis=-1)
    return jnp.mean(loss_weight(sigma) * per_curve)


def update_ema(ema, params, step):
    decay = jnp.minimum(EMA_DECAY, (1.0 + step) / (10.0 + step))
    return jax.tree_util.tree_map(
        lambda e, p: decay * e + (1.0 - decay) * p, ema, params
    )


def train_step(state, key, x, weekday):
    loss, grads = jax.value_and_grad(loss_fn)(state.params, key, x, weekday)
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    ema_params = update_ema(state.ema_params, params, state.step)
    return TrainState(state.step + 1, params, ema_params, opt_state), loss


def main():
    rng = np.random.default_rng(16)
    key = jax.random.PRNGKey(16)
    x = jnp.zeros((BATCH, HOURS))
    params = model.init(key, x, jnp.zeros(BATCH), jnp.zeros(BATCH, jnp.int32))["params"]
    state = TrainState(jnp.zeros((), jnp.int32), params, params, optimizer.init(params))
    step = jax.jit(train_step)
    for i in range(4):
        x = rng.normal(0, 0.5, (BATCH, HOURS)).astype(np.float32)
        weekday = rng.integers(0, 7, BATCH).astype(np.int32)
        k = jax.random.fold_in(key, i)
        if i == 0:
            module = step.lower(state, k, x, weekday).compiler_ir("hlo")
            with open(OUT, "w") as f:
                f.write(module.as_hlo_module().to_string())
        state, loss = step(state, k, x, weekday)
        print(i, "%.6f" % loss)


if __name__ == "__main__":
    main()
