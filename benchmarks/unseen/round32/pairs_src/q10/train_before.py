"""Class-conditional diffusion on small spectrogram tiles: training step and guided DDIM sampler."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

T, CLASSES, SIZE = 64, 5, 8
betas = np.linspace(1e-4, 0.12, T)
ALPHA_BAR = jnp.asarray(np.cumprod(1.0 - betas), jnp.float32)


class ResBlock(nn.Module):
    ch: int

    @nn.compact
    def __call__(self, x, emb):
        h = nn.Conv(self.ch, (3, 3))(nn.silu(nn.GroupNorm(4)(x)))
        scale, shift = jnp.split(nn.Dense(2 * self.ch)(nn.silu(emb))[:, None, None, :], 2, axis=-1)
        h = nn.GroupNorm(4)(h) * (1 + scale) + shift
        h = nn.Conv(self.ch, (3, 3), kernel_init=nn.initializers.normal(0.05))(nn.silu(h))
        return x + h


class Denoiser(nn.Module):
    ch: int = 8

    @nn.compact
    def __call__(self, x, t, label):
        freq = jnp.exp(-np.log(1e4) * jnp.arange(8) / 8)
        ang = t[:, None].astype(jnp.float32) * freq
        emb = nn.Dense(16)(jnp.concatenate([jnp.sin(ang), jnp.cos(ang)], -1))
        emb = emb + nn.Embed(CLASSES + 1, 16)(label)
        h = nn.Conv(self.ch, (3, 3))(x)
        h = ResBlock(self.ch)(h, emb)
        d = nn.avg_pool(h, (2, 2), strides=(2, 2))
        d = ResBlock(self.ch)(d, emb)
        h = h + jax.image.resize(d, h.shape, "nearest")
        h = ResBlock(self.ch)(h, emb)
        return nn.Conv(1, (3, 3))(nn.silu(nn.GroupNorm(4)(h)))


model = Denoiser()
tx = optax.adam(2e-3)


def train_step(params, opt_state, key, x0, label):
    def objective(p):
        k_t, k_n, k_d = jax.random.split(key, 3)
        t = jax.random.randint(k_t, (x0.shape[0],), 0, T)
        noise = jax.random.normal(k_n, x0.shape)
        drop = jax.random.bernoulli(k_d, 0.1, label.shape)
        ab = ALPHA_BAR[t][:, None, None, None]
        xt = jnp.sqrt(ab) * x0 + jnp.sqrt(1 - ab) * noise
        pred = model.apply(p, xt, t, jnp.where(drop, CLASSES, label))
        return jnp.mean((pred - noise) ** 2)

    loss, grads = jax.value_and_grad(objective)(params)
    updates, opt_state = tx.update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state, loss


def sample(params, key, label, steps=16, guidance=2.0):
    n = label.shape[0]
    times = jnp.asarray(np.arange(0, T, T // steps)[::-1].copy())
    prev = jnp.concatenate([times[1:], jnp.array([-1])])
    null = jnp.full_like(label, CLASSES)

    def body(x, pair):
        t, s = pair
        tt = jnp.full((2 * n,), t)
        eps = model.apply(params, jnp.concatenate([x, x]), tt, jnp.concatenate([label, null]))
        cond, uncond = jnp.split(eps, 2)
        eps = uncond + guidance * (cond - uncond)
        ab_t = ALPHA_BAR[t]
        ab_s = jnp.where(s >= 0, ALPHA_BAR[s], 1.0)
        x0 = (x - jnp.sqrt(1 - ab_t) * eps) / jnp.sqrt(ab_t)
        x0 = jnp.clip(x0, -1.0, 1.0)
        eps = (x - jnp.sqrt(ab_t) * x0) / jnp.sqrt(1 - ab_t)
        return jnp.sqrt(ab_s) * x0 + jnp.sqrt(1 - ab_s) * eps, jnp.abs(x0).mean()

    x = jax.random.normal(key, (n, SIZE, SIZE, 1))
    return jax.lax.scan(body, x, (times, prev))


def tiles(n, batch, seed):
    rng = np.random.default_rng(seed)
    yy = np.linspace(0, 1, SIZE)[:, None]
    for _ in range(n):
        label = rng.integers(0, CLASSES, batch)
        band = np.exp(-((yy[None] - label[:, None, None] / CLASSES) ** 2) / 0.02) * np.ones((1, 1, SIZE))
        yield (2 * band - 1 + 0.05 * rng.standard_normal(band.shape))[..., None].astype(np.float32), label


def main(steps=6):
    key = jax.random.key(0)
    params = model.init(key, jnp.zeros((2, SIZE, SIZE, 1)), jnp.zeros(2, int), jnp.zeros(2, int))
    opt_state = tx.init(params)
    train = jax.jit(train_step)
    for i, (x0, label) in enumerate(tiles(steps, 8, 1)):
        params, opt_state, loss = train(params, opt_state, jax.random.fold_in(key, i), x0, label)
        print(i, float(loss))
    draw = jax.jit(partial(sample, steps=16, guidance=2.0))
    x, trace = draw(params, jax.random.key(7), jnp.arange(4) % CLASSES)
    print("samples", x.shape, float(x.mean()), float(x.std()), np.asarray(trace).round(3)[-3:])


if __name__ == "__main__":
    main()
