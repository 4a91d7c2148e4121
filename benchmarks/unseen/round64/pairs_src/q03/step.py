"""Image/text contrastive pre-training (small dual encoder), flax + optax, bfloat16 compute."""
import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct
from flax.training import train_state


@struct.dataclass
class Config:
    dim: int = 16
    embed: int = 12
    vocab: int = 64
    text_len: int = 10
    image: int = 16
    patch: int = 4
    batch: int = 8
    warm_epochs: int = 1
    epochs: int = 3
    steps_per_epoch: int = 2
    tau_start: float = 0.2
    tau_end: float = 0.07
    lr: float = 1e-3
    dtype: Any = jnp.bfloat16


class ImageTower(nn.Module):
    cfg: Config

    @nn.compact
    def __call__(self, images):
        c = self.cfg
        x = nn.Conv(c.dim, (c.patch, c.patch), strides=(c.patch, c.patch), dtype=c.dtype)(images)
        x = x.reshape(x.shape[0], -1, c.dim)
        x = x + nn.Dense(c.dim, dtype=c.dtype)(nn.gelu(x))
        return nn.Dense(c.embed, use_bias=False, dtype=c.dtype)(x.mean(axis=1))


class TextTower(nn.Module):
    cfg: Config

    @nn.compact
    def __call__(self, tokens):
        c = self.cfg
        x = nn.Embed(c.vocab, c.dim, dtype=c.dtype)(tokens)
        w = (tokens > 0).astype(c.dtype)[..., None]
        x = (x * w).sum(axis=1) / w.sum(axis=1)
        x = nn.gelu(nn.Dense(2 * c.dim, dtype=c.dtype)(x))
        return nn.Dense(c.embed, use_bias=False, dtype=c.dtype)(x)


class DualEncoder(nn.Module):
    cfg: Config

    @nn.compact
    def __call__(self, images, tokens):
        zi = ImageTower(self.cfg)(images)
        zt = TextTower(self.cfg)(tokens)
        zi = zi / jnp.linalg.norm(zi, axis=-1, keepdims=True)
        zt = zt / jnp.linalg.norm(zt, axis=-1, keepdims=True)
        return zi, zt


def contrastive_loss(zi, zt, tau):
    logits = zi @ zt.T / tau
    labels = jnp.arange(logits.shape[0])
    li = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
    lt = optax.softmax_cross_entropy_with_integer_labels(logits.T, labels).mean()
    acc = (logits.argmax(axis=-1) == labels).mean()
    return 0.5 * (li + lt), acc


@functools.partial(jax.jit, donate_argnums=0)
def train_step(state, batch, tau):
    def loss_fn(params):
        zi, zt = state.apply_fn({"params": params}, batch["image"], batch["text"])
        return contrastive_loss(zi, zt, tau)

    (loss, acc), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    state = state.apply_gradients(grads=grads)
    return state, {"loss": loss, "acc": acc, "grad_norm": optax.global_norm(grads)}


def temperature(cfg, epoch):
    if epoch < cfg.warm_epochs:
        return cfg.tau_start
    return np.interp(epoch, [cfg.warm_epochs, cfg.epochs - 1], [cfg.tau_start, cfg.tau_end])


def make_batch(rng, cfg):
    tokens = rng.integers(1, cfg.vocab, (cfg.batch, cfg.text_len)).astype(np.int32)
    lengths = rng.integers(4, cfg.text_len + 1, (cfg.batch, 1))
    return {
        "image": rng.standard_normal((cfg.batch, cfg.image, cfg.image, 3), dtype=np.float32),
        "text": np.where(np.arange(cfg.text_len) < lengths, tokens, 0).astype(np.int32),
    }


def create_state(cfg, rng):
    model = DualEncoder(cfg)
    batch = make_batch(rng, cfg)
    params = model.init(jax.random.PRNGKey(0), batch["image"], batch["text"])["params"]
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(cfg.lr, weight_decay=0.1))
    state = train_state.TrainState.create(apply_fn=model.apply, params=params, tx=tx)
    return state.replace(step=jnp.zeros((), jnp.int32))


def run(cfg, on_step=None):
    rng = np.random.default_rng(0)
    state = create_state(cfg, rng)
    for epoch in range(cfg.epochs):
        tau = temperature(cfg, epoch)
        for _ in range(cfg.steps_per_epoch):
            batch = make_batch(rng, cfg)
            if on_step is not None:
                on_step(epoch, (state, batch, tau))
            state, metrics = train_step(state, batch, tau)
        print(epoch, {k: float(v) for k, v in metrics.items()}, "programs", train_step._cache_size(), flush=True)
    return state


if __name__ == "__main__":
    run(Config())
