"""Latent prediction pre-training on Raman spectra: predict embeddings of hidden bands."""
import os

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import train_state

BANDS, BAND_WIDTH, DIM, HIDDEN_BANDS = 12, 8, 16, 4


class Mixer(nn.Module):
    dim: int

    @nn.compact
    def __call__(self, x):
        y = nn.LayerNorm()(x)
        y = nn.Dense(x.shape[1], name="bands")(y.swapaxes(1, 2)).swapaxes(1, 2)
        x = x + nn.swish(y)
        y = nn.LayerNorm()(x)
        return x + nn.Dense(self.dim, name="channels")(nn.swish(y))


class Encoder(nn.Module):
    dim: int = DIM
    depth: int = 1

    @nn.compact
    def __call__(self, spectra, mask=None):
        x = spectra.reshape(spectra.shape[0], BANDS, BAND_WIDTH)
        x = nn.Dense(self.dim, name="embed")(x)
        if mask is not None:
            token = self.param("mask_token", nn.initializers.normal(0.02), (self.dim,))
            x = jnp.where(mask[..., None], token, x)
        x = x + self.param("pos", nn.initializers.normal(0.02), (BANDS, self.dim))
        for i in range(self.depth):
            x = Mixer(self.dim, name=f"mixer{i}")(x)
        return x


class Predictor(nn.Module):
    dim: int = DIM

    @nn.compact
    def __call__(self, x):
        h = nn.swish(nn.Dense(2 * self.dim)(x))
        return nn.Dense(self.dim)(h)


class Model(nn.Module):
    def setup(self):
        self.encoder = Encoder()
        self.predictor = Predictor()

    def __call__(self, spectra, mask):
        context = self.predictor(self.encoder(spectra, mask))
        target = self.encoder(spectra)
        return context, target


def standardize(z, axis=-1):
    mu = z.mean(axis, keepdims=True)
    return (z - mu) * jax.lax.rsqrt(z.var(axis, keepdims=True) + 1e-5)


def latent_loss(context, target, mask):
    err = (context - standardize(target)) ** 2
    w = mask.astype(err.dtype)
    return (err.mean(-1) * w).sum() / w.sum()


@jax.jit
def train_step(state, spectra, mask):
    def loss_fn(params):
        context, target = state.apply_fn({"params": params}, spectra, mask)
        return latent_loss(context, target, mask)

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


def batches(n, size=4, seed=0):
    rng = np.random.default_rng(seed)
    grid = np.arange(BANDS * BAND_WIDTH)
    for _ in range(n):
        centre = rng.uniform(0, len(grid), (size, 5, 1))
        peaks = np.exp(-((grid - centre) / 2.5) ** 2).sum(1)
        mask = np.zeros((size, BANDS), bool)
        for row in mask:
            row[rng.choice(BANDS, HIDDEN_BANDS, replace=False)] = True
        yield (peaks + 0.02 * rng.normal(size=peaks.shape)).astype(np.float32), mask


def main(steps=4):
    model = Model()
    spectra, mask = next(batches(1))
    params = model.init(jax.random.key(0), spectra, mask)["params"]
    state = train_state.TrainState.create(apply_fn=model.apply, params=params, tx=optax.lion(3e-4))
    for i, (spectra, mask) in enumerate(batches(steps)):
        if i == 0 and os.environ.get("DUMP_HLO"):
            with open(os.environ["DUMP_HLO"], "w") as f:
                f.write(train_step.lower(state, spectra, mask).compiler_ir("hlo").as_hlo_text())
        state, loss = train_step(state, spectra, mask)
        print(i, float(loss))


if __name__ == "__main__":
    main()
