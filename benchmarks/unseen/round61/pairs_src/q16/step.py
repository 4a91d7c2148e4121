"""Latent diffusion pre-training on a mixture of shards (flax nnx + optax)."""
import argparse
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx


def timestep_embedding(t, dim):
    freqs = jnp.exp(-np.log(1e4) * jnp.arange(dim // 2) / (dim // 2))
    args = t[:, None] * 1000.0 * freqs[None]
    return jnp.concatenate([jnp.cos(args), jnp.sin(args)], axis=-1)


class ResBlock(nnx.Module):
    def __init__(self, ch, emb, rngs):
        self.norm = nnx.GroupNorm(ch, num_groups=2, rngs=rngs)
        self.conv1 = nnx.Conv(ch, ch, (3, 3), rngs=rngs)
        self.emb = nnx.Linear(emb, ch, rngs=rngs)
        self.conv2 = nnx.Conv(ch, ch, (3, 3), rngs=rngs)

    def __call__(self, x, emb):
        h = self.conv1(nnx.silu(self.norm(x)))
        h = h + self.emb(nnx.silu(emb))[:, None, None, :]
        return x + self.conv2(nnx.silu(h))


class Denoiser(nnx.Module):
    def __init__(self, latent_ch, ch, n_classes, rngs):
        self.ch = ch
        self.conv_in = nnx.Conv(latent_ch, ch, (3, 3), rngs=rngs)
        self.label = nnx.Embed(n_classes, ch, rngs=rngs)
        self.time = nnx.Linear(ch, ch, rngs=rngs)
        self.block1 = ResBlock(ch, ch, rngs)
        self.conv_out = nnx.Conv(ch, latent_ch, (3, 3), rngs=rngs)

    def __call__(self, x, t, label):
        emb = self.time(timestep_embedding(t, self.ch)) + self.label(label)
        h = self.block1(self.conv_in(x), emb)
        return self.conv_out(nnx.silu(h))


def diffusion_loss(pred, noise, t, batch):
    err = jnp.square(pred - noise)
    if "mask" in batch:
        m = batch["mask"][..., None]
        err = (err * m).sum(axis=(1, 2, 3)) / (m.sum(axis=(1, 2, 3)) * err.shape[-1])
    else:
        err = err.mean(axis=(1, 2, 3))
    snr = jnp.square(jnp.cos(t * jnp.pi / 2) / jnp.sin(t * jnp.pi / 2))
    return (err * jnp.minimum(snr, 5.0) / snr).mean()


@partial(jax.jit, static_argnames=("graphdef", "tx"))
def train_step(graphdef, tx, state, ema, opt_state, batch, key):
    k_noise, k_t = jax.random.split(key)
    x0 = batch["latent"]
    noise = jax.random.normal(k_noise, x0.shape)
    t = jax.random.uniform(k_t, (x0.shape[0],), minval=0.01, maxval=0.99)
    a = jnp.cos(t * jnp.pi / 2)[:, None, None, None]
    s = jnp.sin(t * jnp.pi / 2)[:, None, None, None]

    def loss_fn(params):
        model = nnx.merge(graphdef, params)
        pred = model(a * x0 + s * noise, t, batch["label"])
        return diffusion_loss(pred, noise, t, batch)

    loss, grads = jax.value_and_grad(loss_fn)(state)
    updates, opt_state = tx.update(grads, opt_state, state)
    state = optax.apply_updates(state, updates)
    ema = optax.incremental_update(state, ema, 0.01)
    return state, ema, opt_state, loss


class Shard:
    def __init__(self, seed, size=64, n_classes=4, masked=False):
        rng = np.random.default_rng(seed)
        self.items = []
        for _ in range(size):
            item = {
                "latent": rng.standard_normal((8, 8, 4)).astype(np.float32),
                "label": np.int32(rng.integers(n_classes)),
                "mask": None,
            }
            if masked:
                item["mask"] = (rng.random((8, 8)) > 0.3).astype(np.float32)
            self.items.append(item)
        self.rng = rng

    def sample(self, n):
        return [self.items[i] for i in self.rng.integers(len(self.items), size=n)]


def collate(items):
    return {k: np.stack([it[k] for it in items])
            for k in items[0] if items[0][k] is not None}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--hlo-dir", type=Path)
    parser.add_argument("--hlo-steps", type=int, nargs="*", default=[])
    args = parser.parse_args()

    model = Denoiser(4, 8, 4, nnx.Rngs(0))
    graphdef, state = nnx.split(model, nnx.Param)
    tx = optax.adam(1e-3)
    opt_state = tx.init(state)
    ema = jax.tree.map(jnp.copy, state)
    shards = [Shard(1), Shard(2, masked=True)]
    mixture = np.random.default_rng(11)
    key = jax.random.key(0)

    for step in range(args.steps):
        shard = shards[mixture.choice(len(shards), p=[0.75, 0.25])]
        batch = collate(shard.sample(4))
        key, sub = jax.random.split(key)
        inputs = (graphdef, tx, state, ema, opt_state, batch, sub)
        if step in args.hlo_steps:
            hlo = train_step.lower(*inputs).compiler_ir("hlo").as_hlo_text()
            (args.hlo_dir / f"q16_{step}.hlo").write_text(hlo)
        state, ema, opt_state, loss = train_step(*inputs)
        print(f"step {step} loss {float(loss):.4f} compiled {train_step._cache_size()}")


if __name__ == "__main__":
    main()
