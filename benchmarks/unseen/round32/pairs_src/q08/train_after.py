"""Masked-patch pretraining on EEG windows, data parallel with shard_map.

Start with XLA_FLAGS=--xla_force_host_platform_device_count=4 to get four devices on a host.
"""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from jax.sharding import Mesh, PartitionSpec as P

try:
    from jax import shard_map
except ImportError:
    from jax.experimental.shard_map import shard_map

CH, PATCH, N_PATCH = 4, 8, 12


class MixerBlock(nn.Module):
    dim: int

    @nn.compact
    def __call__(self, x):
        y = nn.LayerNorm()(x)
        y = jnp.swapaxes(nn.Dense(N_PATCH)(nn.gelu(nn.Dense(2 * N_PATCH)(jnp.swapaxes(y, 1, 2)))), 1, 2)
        x = x + y
        y = nn.LayerNorm()(x)
        return x + nn.Dense(self.dim)(nn.gelu(nn.Dense(2 * self.dim)(y)))


class EEGMixer(nn.Module):
    dim: int = 16
    depth: int = 1

    @nn.compact
    def __call__(self, patches, hidden):
        token = self.param("mask_token", nn.initializers.normal(0.02), (self.dim,))
        x = nn.Dense(self.dim)(patches)
        x = jnp.where(hidden[..., None], token, x)
        for _ in range(self.depth):
            x = MixerBlock(self.dim)(x)
        return nn.Dense(CH * PATCH)(x)


def make_optimizer():
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3, b2=0.95, weight_decay=0.05))


def train_step(model, tx, params, opt_state, batch):
    def objective(p):
        pred = model.apply({"params": p}, batch["patches"], batch["hidden"])
        err = jnp.square(pred - batch["patches"]).mean(-1)
        w = (batch["hidden"] & batch["clean"]).astype(err.dtype)
        return (err * w).sum() / jnp.maximum(w.sum(), 1.0)

    loss, grads = jax.value_and_grad(objective)(params)
    loss, grads = jax.lax.pmean((loss, grads), "data")
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def windows(n, batch, seed):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        t = np.arange(N_PATCH * PATCH) / 64
        f = rng.uniform(4, 12, (batch, CH, 1))
        x = np.sin(2 * np.pi * f * t) + 0.2 * rng.standard_normal((batch, CH, t.size))
        x = x.reshape(batch, CH, N_PATCH, PATCH).transpose(0, 2, 1, 3).reshape(batch, N_PATCH, CH * PATCH)
        yield {
            "patches": x.astype(np.float32),
            "hidden": rng.random((batch, N_PATCH)) < 0.5,
            "clean": rng.random((batch, N_PATCH)) < rng.uniform(0.3, 1.0, (batch, 1)),
        }


def build():
    mesh = Mesh(np.array(jax.devices()), ("data",))
    model, tx = EEGMixer(), make_optimizer()
    sample = next(windows(1, 2, 0))
    params = model.init(jax.random.key(0), sample["patches"], sample["hidden"])["params"]
    step = jax.jit(
        shard_map(
            partial(train_step, model, tx), mesh=mesh,
            in_specs=(P(), P(), P("data")), out_specs=(P(), P(), P()), check_vma=False,
        )
    )
    return step, params, tx.init(params)


def main(steps=5):
    step, params, opt_state = build()
    for i, batch in enumerate(windows(steps, 16, seed=3)):
        params, opt_state, loss = step(params, opt_state, batch)
        print(i, float(loss))


if __name__ == "__main__":
    main()
