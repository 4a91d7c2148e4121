"""Data-parallel flax training of a patch mixer over a 1-d device mesh."""
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

CONFIG = {
    "image": 8,
    "patch": 4,
    "dim": 16,
    "classes": 6,
    "per_device_batch": 4,
    "peak_lr": 3e-3,
    "warmup": 2,
    "steps": 4,
}


class MixerBlock(nn.Module):
    dim: int
    tokens: int

    @nn.compact
    def __call__(self, x):
        y = nn.LayerNorm()(x)
        y = jnp.swapaxes(y, 1, 2)
        y = nn.Dense(self.tokens)(nn.gelu(nn.Dense(2 * self.tokens)(y)))
        x = x + jnp.swapaxes(y, 1, 2)
        y = nn.LayerNorm()(x)
        return x + nn.Dense(self.dim)(nn.gelu(nn.Dense(2 * self.dim)(y)))


class Mixer(nn.Module):
    cfg: dict

    @nn.compact
    def __call__(self, images):
        c = self.cfg
        x = nn.Conv(c["dim"], (c["patch"],) * 2, strides=(c["patch"],) * 2)(images)
        x = x.reshape(x.shape[0], -1, c["dim"])
        x = MixerBlock(c["dim"], x.shape[1])(x)
        return nn.Dense(c["classes"])(x.mean(axis=1))


def cross_entropy(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def average(g, axis):
    return lax.pmean(g.astype(jnp.bfloat16), axis).astype(g.dtype)


def make_train_step(model, tx, mesh):

    def local_step(params, opt_state, images, labels):

        def loss_fn(p):
            logits = model.apply({"params": p}, images)
            return cross_entropy(logits, labels), logits

        (loss, logits), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
        grads = jax.tree.map(lambda g: average(g, "data"), grads)
        updates, opt_state = tx.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        metrics = {"loss": loss, "acc": jnp.mean(logits.argmax(-1) == labels)}
        return params, opt_state, lax.pmean(metrics, "data")

    sharded = jax.shard_map(
        local_step,
        mesh=mesh,
        in_specs=(P(), P(), P("data"), P("data")),
        out_specs=(P(), P(), P()),
        check_vma=False,
    )

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def train_step(params, opt_state, images, labels):
        return sharded(params, opt_state, images, labels)

    return train_step


def batches(cfg, n_dev, rng):
    n = cfg["per_device_batch"] * n_dev
    protos = rng.normal(size=(cfg["classes"], cfg["image"], cfg["image"], 3))
    for _ in range(cfg["steps"]):
        labels = rng.integers(cfg["classes"], size=n)
        images = protos[labels] + 0.7 * rng.normal(size=(n, cfg["image"], cfg["image"], 3))
        yield images.astype(np.float32), labels.astype(np.int32)


def main(cfg):
    devices = np.array(jax.devices())
    mesh = Mesh(devices, ("data",))
    model = Mixer(cfg)
    rng = np.random.default_rng(0)
    dummy = jnp.zeros((1, cfg["image"], cfg["image"], 3))
    params = model.init(jax.random.key(0), dummy)["params"]
    schedule = optax.warmup_cosine_decay_schedule(0.0, cfg["peak_lr"], cfg["warmup"], cfg["steps"])
    tx = optax.adamw(schedule, weight_decay=0.05)
    opt_state = tx.init(params)
    train_step = make_train_step(model, tx, mesh)
    for i, (images, labels) in enumerate(batches(cfg, len(devices), rng)):
        params, opt_state, metrics = train_step(params, opt_state, images, labels)
        print(i, {k: round(float(v), 4) for k, v in metrics.items()})


if __name__ == "__main__":
    main(CONFIG)
