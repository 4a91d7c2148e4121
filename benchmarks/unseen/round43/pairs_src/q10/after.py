"""Diffusion on sensor windows: 1-d conv denoiser, cosine schedule, eps loss, EMA weights."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

B, LEN, CH, WIDTH, T_MAX = 4, 12, 2, 8, 50
DECAY = 0.995
SNR_GAMMA = 5.0


class Block(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x, emb):
        h = nn.GroupNorm(num_groups=2)(x)
        h = nn.Conv(self.width, (3,))(nn.silu(h))
        scale, shift = jnp.split(nn.Dense(2 * self.width)(emb), 2, axis=-1)
        h = h * (1.0 + scale[:, None]) + shift[:, None]
        return x + nn.Conv(self.width, (3,), kernel_init=nn.initializers.normal(0.02))(nn.silu(h))


class Denoiser(nn.Module):
    @nn.compact
    def __call__(self, x, t):
        freq = jnp.exp(-jnp.arange(4) * 1.5)
        ang = t[:, None].astype(jnp.float32) * freq[None]
        emb = nn.silu(nn.Dense(WIDTH)(jnp.concatenate([jnp.sin(ang), jnp.cos(ang)], axis=-1)))
        h = nn.Conv(WIDTH, (3,))(x)
        h = Block(WIDTH)(h, emb)
        return nn.Conv(CH, (3,))(h)


model = Denoiser()
tx = optax.adamw(optax.warmup_cosine_decay_schedule(0.0, 1e-3, 10, 200), weight_decay=1e-4)


def alpha_bar():
    s = jnp.arange(T_MAX + 1) / T_MAX
    f = jnp.cos((s + 0.008) / 1.008 * jnp.pi / 2) ** 2
    return jnp.clip(f[1:] / f[0], 1e-4, 0.9999)


def loss_fn(params, x, t, eps):
    ab = alpha_bar()[t][:, None, None]
    noisy = jnp.sqrt(ab) * x + jnp.sqrt(1.0 - ab) * eps
    pred = model.apply(params, noisy, t)
    per_example = jnp.mean((pred - eps) ** 2, axis=(1, 2))
    snr = (ab / (1.0 - ab))[:, 0, 0]
    weight = jnp.minimum(snr, SNR_GAMMA) / snr
    return (weight * per_example).mean()


def step(params, ema, opt_state, x, t, eps):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, t, eps)
    updates, opt_state = tx.update(grads, opt_state, params)
    ema = optax.incremental_update(params, ema, 1.0 - DECAY)
    return optax.apply_updates(params, updates), ema, opt_state, loss


def make_batch(key):
    k1, k2, k3 = jax.random.split(key, 3)
    return (
        jax.random.normal(k1, (B, LEN, CH)),
        jax.random.randint(k2, (B,), 0, T_MAX),
        jax.random.normal(k3, (B, LEN, CH)),
    )


def main(path):
    key = jax.random.PRNGKey(13)
    batch = make_batch(key)
    params = model.init(key, batch[0], batch[1])
    ema = params
    opt_state = tx.init(params)
    lowered = jax.jit(step).lower(params, ema, opt_state, *batch)
    with open(path, "w") as f:
        f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    fast = jax.jit(step)
    for i in range(4):
        params, ema, opt_state, loss = fast(params, ema, opt_state, *make_batch(jax.random.fold_in(key, i)))
        print(i, float(loss), float(optax.global_norm(ema)))


if __name__ == "__main__":
    main(sys.argv[1])
