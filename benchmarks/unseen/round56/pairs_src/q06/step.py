"""Latent diffusion transformer (v-prediction) on pre-encoded latents, flax + optax."""
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import train_state

LATENT = (8, 8, 4)
PATCH = 2
WIDTH = 32
NUM_CLASSES = 10


class AdaBlock(nn.Module):
    heads: int = 4

    @nn.compact
    def __call__(self, x, c):
        d = x.shape[-1]
        mod = nn.Dense(3 * d, kernel_init=nn.initializers.zeros)(nn.silu(c))
        scale, shift, gate = jnp.split(mod[:, None], 3, axis=-1)
        h = nn.LayerNorm(use_bias=False, use_scale=False)(x) * (1 + scale) + shift
        att = nn.MultiHeadDotProductAttention(num_heads=self.heads, use_bias=False)(h, h)
        return x + gate * (att + nn.Dense(d)(nn.gelu(nn.Dense(2 * d)(h))))


def timestep_features(t, dim=32):
    freqs = jnp.exp(-np.log(10000.0) * jnp.arange(dim // 2) / (dim // 2))
    ang = t[:, None] * 1000.0 * freqs
    return jnp.concatenate([jnp.cos(ang), jnp.sin(ang)], -1)


class DiT(nn.Module):
    depth: int = 1

    @nn.compact
    def __call__(self, z, t, labels):
        b, hgt, wid, ch = z.shape
        n = (hgt // PATCH) * (wid // PATCH)
        x = nn.Conv(WIDTH, (PATCH, PATCH), strides=PATCH)(z).reshape(b, n, WIDTH)
        x = x + self.param("pos", nn.initializers.normal(0.02), (1, n, WIDTH))
        c = nn.Dense(WIDTH)(timestep_features(t)) + nn.Embed(NUM_CLASSES + 1, WIDTH)(labels)
        for _ in range(self.depth):
            x = AdaBlock()(x, c)
        x = nn.Dense(PATCH * PATCH * ch)(nn.LayerNorm()(x))
        x = x.reshape(b, hgt // PATCH, wid // PATCH, PATCH, PATCH, ch)
        return x.transpose(0, 1, 3, 2, 4, 5).reshape(b, hgt, wid, ch)


@functools.partial(jax.jit, donate_argnums=0)
def train_step(state, batch, key):
    k_t, k_n, k_c = jax.random.split(key, 3)
    z = batch["latents"]
    t = jax.random.uniform(k_t, (z.shape[0],))
    noise = jax.random.normal(k_n, z.shape)
    alpha, sigma = jnp.cos(t * jnp.pi / 2), jnp.sin(t * jnp.pi / 2)
    a, s = alpha[:, None, None, None], sigma[:, None, None, None]
    drop = jax.random.bernoulli(k_c, 0.1, (z.shape[0],))
    labels = jnp.where(drop, NUM_CLASSES, batch["label"])

    def loss_fn(params):
        v = state.apply_fn({"params": params}, a * z + s * noise, t, labels)
        err = jnp.square(v - (a * noise - s * z)).mean((1, 2, 3))
        if "sample_weight" in batch:
            w = batch["sample_weight"]
            return (err * w).sum() / jnp.maximum(w.sum(), 1e-6)
        return err.mean()

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), {"loss": loss, "grad_norm": optax.global_norm(grads)}


def read_shard(rng, shard, n):
    for _ in range(n):
        row = {"latents": rng.normal(size=LATENT).astype(np.float32), "label": np.int32(rng.integers(NUM_CLASSES))}
        if shard["scores"]:
            row["sample_weight"] = np.float32(rng.uniform(0.3, 1.0))
        yield row


def collate(rows):
    keys = set.intersection(*(set(r) for r in rows))
    return {k: np.stack([r[k] for r in rows]) for k in sorted(keys)}


def loader(rng, shards, batch_size):
    rows = []
    for shard in shards:
        for row in read_shard(rng, shard, 2 * batch_size + 1):
            rows.append(row)
            if len(rows) == batch_size:
                yield collate(rows)
                rows = []


def main(dump=None):
    rng = np.random.default_rng(1)
    model = DiT()
    init_key, key = jax.random.split(jax.random.PRNGKey(0))
    params = model.init(init_key, jnp.zeros((1, *LATENT)), jnp.zeros(1), jnp.zeros(1, jnp.int32))["params"]
    tx = optax.sgd(0.02, momentum=0.9)
    state = train_state.TrainState.create(apply_fn=model.apply, params=params, tx=tx)
    shards = [{"scores": True}, {"scores": True}, {"scores": False}]
    for i, batch in enumerate(loader(rng, shards, 4)):
        key, sub = jax.random.split(key)
        if dump:
            dump(i, train_step.lower(state, batch, sub))
        state, metrics = train_step(state, batch, sub)
        print(i, float(metrics["loss"]), train_step._cache_size())


if __name__ == "__main__":
    main()
