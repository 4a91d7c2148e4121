"""Fourier neural operator for the 1-D Burgers equation."""
import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState


class SpectralConv(nn.Module):
    width: int
    modes: int

    @nn.compact
    def __call__(self, x):
        shape = (self.modes, x.shape[-1], self.width)
        init = nn.initializers.normal(1.0 / (x.shape[-1] * self.width))
        w_re = self.param("w_re", init, shape)
        w_im = self.param("w_im", init, shape)
        xf = jnp.fft.rfft(x, axis=1)
        yf = jnp.einsum("bki,kio->bko", xf[:, : self.modes], jax.lax.complex(w_re, w_im))
        yf = jnp.pad(yf, ((0, 0), (0, xf.shape[1] - self.modes), (0, 0)))
        return jnp.fft.irfft(yf, n=x.shape[1], axis=1)


class FNO(nn.Module):
    width: int = 12
    modes: int = 8
    depth: int = 3

    @nn.compact
    def __call__(self, u0, grid):
        x = jnp.stack([u0, jnp.broadcast_to(grid, u0.shape)], axis=-1)
        x = nn.Dense(self.width, name="lift")(x)
        for i in range(self.depth):
            y = SpectralConv(self.width, self.modes, name=f"spectral_{i}")(x)
            y = y + nn.Dense(self.width, name=f"skip_{i}")(x)
            x = nn.gelu(y) if i < self.depth - 1 else y
        x = nn.gelu(nn.Dense(32, name="proj")(x))
        return nn.Dense(1, name="out")(x)[..., 0]


def relative_l2(pred, target):
    num = jnp.sqrt(jnp.sum(jnp.square(pred - target), axis=-1))
    den = jnp.sqrt(jnp.sum(jnp.square(target), axis=-1))
    return jnp.mean(num / den)


def make_tx(lr):
    return optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adamw(lr, weight_decay=1e-4),
    )


@jax.jit
def train_step(state, batch):
    def loss_fn(params):
        pred = state.apply_fn({"params": params}, batch["u0"], batch["grid"])
        return relative_l2(pred, batch["u1"])

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


@dataclasses.dataclass
class Plateau:
    factor: float = 0.5
    patience: int = 1
    best: float = float("inf")
    bad: int = 0

    def should_reduce(self, value):
        if value < self.best * (1 - 0.05):
            self.best, self.bad = value, 0
            return False
        self.bad += 1
        if self.bad >= self.patience:
            self.bad = 0
            return True
        return False


def burgers(n, res, rng):
    x = np.linspace(0, 1, res, endpoint=False)
    amp = rng.normal(size=(n, 4)) / np.arange(1, 5)
    phase = rng.uniform(0, 2 * np.pi, (n, 4))
    k = np.arange(1, 5)
    u0 = (amp[..., None] * np.sin(2 * np.pi * k[None, :, None] * x + phase[..., None])).sum(1)
    u = u0.copy()
    for _ in range(60):
        ux = (np.roll(u, -1, 1) - np.roll(u, 1, 1)) * res / 2
        uxx = (np.roll(u, -1, 1) - 2 * u + np.roll(u, 1, 1)) * res**2
        u = u + 0.0005 * (-u * ux + 0.02 * uxx)
    return u0.astype(np.float32), u.astype(np.float32), x.astype(np.float32)


def main(epochs=8, batch=8, res=32):
    rng = np.random.default_rng(0)
    u0, u1, grid = burgers(32, res, rng)
    model = FNO()
    params = model.init(jax.random.key(1), u0[:batch], grid)["params"]
    lr = 4e-3
    state = TrainState.create(apply_fn=model.apply, params=params, tx=make_tx(lr))
    plateau = Plateau()

    for epoch in range(epochs):
        losses = []
        for i in range(0, len(u0), batch):
            sl = slice(i, i + batch)
            state, loss = train_step(state, {"u0": u0[sl], "u1": u1[sl], "grid": grid})
            losses.append(float(loss))
        if plateau.should_reduce(float(np.mean(losses))):
            lr *= plateau.factor
            state = state.replace(tx=make_tx(lr))
        print(epoch, f"{np.mean(losses):.4f}", f"lr {lr:g}")


if __name__ == "__main__":
    main()
