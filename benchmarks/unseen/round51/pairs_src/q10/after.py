"""Sampling step (DDIM, classifier-free guidance) of a 1-D denoiser for sensor traces."""
import sys
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn


def time_features(t, dim):
    half = dim // 2
    freq = jnp.exp(-jnp.log(1000.0) * jnp.arange(half) / half)
    ang = t[:, None].astype(jnp.float32) * freq[None]
    return jnp.concatenate([jnp.sin(ang), jnp.cos(ang)], axis=-1)


class ResBlock(nn.Module):
    ch: int

    @nn.compact
    def __call__(self, x, cond):
        h = nn.Conv(self.ch, (3,))(nn.swish(nn.GroupNorm(num_groups=2)(x)))
        scale, shift = jnp.split(nn.Dense(2 * self.ch)(nn.swish(cond)), 2, axis=-1)
        h = nn.GroupNorm(num_groups=2)(h) * (1.0 + scale[:, None]) + shift[:, None]
        h = nn.Conv(self.ch, (3,))(nn.swish(h))
        if x.shape[-1] != self.ch:
            x = nn.Conv(self.ch, (1,))(x)
        return x + h


class Denoiser(nn.Module):
    ch: int = 8
    n_cls: int = 5

    @nn.compact
    def __call__(self, x, t, label):
        cond = nn.Dense(16)(time_features(t, 16)) + nn.Embed(self.n_cls + 1, 16)(label)
        x = nn.Conv(self.ch, (3,))(x)
        skip = ResBlock(self.ch)(x, cond)
        h = nn.Conv(self.ch, (3,), strides=(2,))(skip)
        h = ResBlock(self.ch)(h, cond)
        h = jnp.repeat(h, 2, axis=1)
        h = ResBlock(self.ch)(jnp.concatenate([h, skip], axis=-1), cond)
        return nn.Conv(1, (3,))(nn.swish(nn.GroupNorm(num_groups=2)(h)))


model = Denoiser()
BETAS = np.linspace(1e-4, 2e-2, 1000)
ALPHA_BAR = np.cumprod(1.0 - BETAS).astype(np.float32)


def guided_eps(params, x, t, label, guidance):
    null = jnp.full_like(label, model.n_cls)
    both = model.apply(
        {"params": params},
        jnp.concatenate([x, x]), jnp.concatenate([t, t]), jnp.concatenate([label, null]))
    cond, uncond = jnp.split(both, 2)
    return uncond + guidance * (cond - uncond)


def ddim_step(params, x, t, t_prev, label, guidance, eta, key):
    a_bar = jnp.asarray(ALPHA_BAR)
    a_t = a_bar[t][:, None, None]
    a_p = jnp.where(t_prev >= 0, a_bar[jnp.maximum(t_prev, 0)], 1.0)[:, None, None]
    eps = guided_eps(params, x, t, label, guidance)
    x0 = (x - jnp.sqrt(1.0 - a_t) * eps) / jnp.sqrt(a_t)
    x0 = jnp.clip(x0, -1.0, 1.0)
    var = (1.0 - a_p) / (1.0 - a_t) * (1.0 - a_t / a_p)
    sigma = eta * jnp.sqrt(var)
    direction = jnp.sqrt(jnp.maximum(1.0 - a_p - sigma ** 2, 0.0)) * eps
    noise = jax.random.normal(key, x.shape)
    return jnp.sqrt(a_p) * x0 + direction + sigma * noise, x0


def main(out):
    rng = np.random.default_rng(3)
    x = jnp.asarray(rng.standard_normal((2, 16, 1)), jnp.float32)
    t = jnp.array([600, 600])
    t_prev = jnp.array([580, 580])
    label = jnp.array([1, 3])
    key = jax.random.PRNGKey(5)
    params = model.init(jax.random.PRNGKey(0), x, t, label)["params"]
    args = (params, x, t, t_prev, label, jnp.float32(3.0), jnp.float32(0.3), key)
    step = jax.jit(ddim_step)
    with open(out, "w") as f:
        f.write(step.lower(*args).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(3):
        x, x0 = step(params, x, t - 20 * i, t_prev - 20 * i, label, args[5], args[6], jax.random.fold_in(key, i))
        print(i, float(jnp.abs(x).sum()), float(jnp.abs(x0).sum()))


if __name__ == "__main__":
    main(sys.argv[1])
