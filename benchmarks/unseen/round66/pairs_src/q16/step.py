"""MLP-Mixer on EEG windows, bf16 weights, plateau learning-rate control."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
import flax.linen as nn


class MixerBlock(nn.Module):
    tokens_dim: int
    channels_dim: int

    @nn.compact
    def __call__(self, x):
        y = nn.LayerNorm(param_dtype=jnp.bfloat16, dtype=jnp.bfloat16)(x)
        y = jnp.swapaxes(y, 1, 2)
        n = y.shape[-1]
        y = nn.gelu(nn.Dense(self.tokens_dim, param_dtype=jnp.bfloat16)(y))
        y = jnp.swapaxes(nn.Dense(n, param_dtype=jnp.bfloat16)(y), 1, 2)
        x = x + y
        y = nn.LayerNorm(param_dtype=jnp.bfloat16, dtype=jnp.bfloat16)(x)
        c = y.shape[-1]
        y = nn.gelu(nn.Dense(self.channels_dim, param_dtype=jnp.bfloat16)(y))
        return x + nn.Dense(c, param_dtype=jnp.bfloat16)(y)


class EEGMixer(nn.Module):
    n_classes: int = 4
    dim: int = 24

    @nn.compact
    def __call__(self, x):
        b, t, e = x.shape
        x = x.reshape(b, t // 8, 8 * e)
        x = nn.Dense(self.dim, param_dtype=jnp.bfloat16)(x)
        for _ in range(2):
            x = MixerBlock(16, 48)(x)
        x = x.mean(axis=1)
        return nn.Dense(self.n_classes, param_dtype=jnp.bfloat16)(x)


MODEL = EEGMixer()


def loss_fn(params, x, y):
    logits = MODEL.apply(params, x).astype(jnp.float32)
    logp = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(logp, y[:, None], axis=1).mean()


@functools.partial(jax.jit, donate_argnums=(0, 1))
def train_step(params, velocity, batch, lr):
    loss, grads = jax.value_and_grad(loss_fn)(params, *batch)
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, grads)
    params = jax.tree.map(lambda p, v: p - lr * v, params, velocity)
    return params, velocity, loss


class ReduceOnPlateau:
    def __init__(self, lr, factor=0.5, patience=2):
        self.lr, self.factor, self.patience = lr, factor, patience
        self.best, self.bad = jnp.inf, 0

    def update(self, loss):
        improved = loss < self.best - 1e-4
        self.bad = jnp.where(improved, 0, self.bad + 1)
        self.best = jnp.minimum(self.best, loss)
        self.lr = jnp.where(self.bad > self.patience, self.lr * self.factor, self.lr).astype(jnp.float32)


def batches(n, bs=8):
    rng = np.random.default_rng(0)
    for _ in range(n):
        x = rng.standard_normal((bs, 64, 6)).astype(np.float32)
        yield jnp.asarray(x, jnp.bfloat16), jnp.asarray(rng.integers(0, 4, bs))


def main(steps=5):
    params = MODEL.init(jax.random.key(0), jnp.zeros((1, 64, 6), jnp.bfloat16))
    velocity = jax.tree.map(jnp.zeros_like, params)
    sched = ReduceOnPlateau(lr=0.05)
    for i, batch in enumerate(batches(steps)):
        params, velocity, loss = train_step(params, velocity, batch, sched.lr)
        sched.update(loss)
        print(i, float(loss))


if __name__ == "__main__":
    main()
