"""Contrastive image/text pre-training with two small bfloat16 towers."""
import os
from dataclasses import dataclass

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import train_state


@dataclass(frozen=True)
class Config:
    batch_size: int = 8
    image_size: int = 16
    patch: int = 8
    vocab: int = 64
    text_len: int = 6
    width: int = 32
    heads: int = 2
    embed_dim: int = 16
    lr: float = 3e-4
    weight_decay: float = 0.1
    steps: int = 6
    warmup_steps: int = 3
    temperature: float = 0.1
    final_temperature: float = 0.02
    seed: int = 0


class Block(nn.Module):
    width: int
    heads: int
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x):
        b, n, _ = x.shape
        h = nn.LayerNorm(dtype=self.dtype)(x)
        qkv = nn.Dense(3 * self.width, dtype=self.dtype, name="qkv")(h)
        q, k, v = jnp.split(qkv.reshape(b, n, self.heads, -1), 3, axis=-1)
        att = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1]).astype(self.dtype)
        h = jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(att), v).reshape(b, n, self.width)
        x = x + nn.Dense(self.width, dtype=self.dtype, name="proj")(h)
        h = nn.LayerNorm(dtype=self.dtype)(x)
        h = nn.gelu(nn.Dense(2 * self.width, dtype=self.dtype, name="fc1")(h))
        return x + nn.Dense(self.width, dtype=self.dtype, name="fc2")(h)


class DualEncoder(nn.Module):
    cfg: Config
    dtype: jnp.dtype = jnp.bfloat16

    @nn.compact
    def __call__(self, images, tokens):
        c = self.cfg
        x = nn.Conv(c.width, (c.patch, c.patch), strides=c.patch, dtype=self.dtype, name="patch_embed")(images)
        x = x.reshape(x.shape[0], -1, c.width)
        pos = self.param("image_pos", nn.initializers.normal(0.02), (x.shape[1], c.width))
        x = Block(c.width, c.heads, self.dtype, name="image_block")(x + pos.astype(self.dtype))
        img = nn.Dense(c.embed_dim, use_bias=False, dtype=self.dtype, name="image_proj")(x.mean(axis=1))

        mask = tokens > 0
        t = nn.Embed(c.vocab, c.width, dtype=self.dtype, name="token_embed")(tokens)
        pos = self.param("text_pos", nn.initializers.normal(0.02), (c.text_len, c.width))
        w = mask.astype(self.dtype)[..., None]
        t = ((t + pos.astype(self.dtype)) * w).sum(axis=1) / jnp.maximum(w.sum(axis=1), 1)
        t = nn.gelu(nn.Dense(c.width, dtype=self.dtype, name="text_fc")(t))
        txt = nn.Dense(c.embed_dim, use_bias=False, dtype=self.dtype, name="text_proj")(t)
        img = img / jnp.linalg.norm(img, axis=-1, keepdims=True)
        txt = txt / jnp.linalg.norm(txt, axis=-1, keepdims=True)
        return img, txt


def clip_loss(img, txt, temperature):
    logits = img @ txt.T / temperature
    labels = jnp.arange(logits.shape[0])
    li = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
    lt = optax.softmax_cross_entropy_with_integer_labels(logits.T, labels).mean()
    accuracy = (logits.argmax(axis=-1) == labels).mean()
    return (li + lt) / 2, accuracy


@jax.jit
def train_step(state, batch, temperature):
    def loss_fn(params):
        img, txt = state.apply_fn({"params": params}, batch["image"], batch["tokens"])
        return clip_loss(img, txt, temperature)

    (loss, accuracy), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    state = state.apply_gradients(grads=grads)
    return state, {"loss": loss, "accuracy": accuracy, "grad_norm": optax.global_norm(grads)}


def temperature_at(step, cfg):
    if step < cfg.warmup_steps:
        return cfg.temperature
    return np.interp(step, [cfg.warmup_steps, cfg.steps], [cfg.temperature, cfg.final_temperature])


def make_batch(rng, cfg):
    tokens = rng.integers(1, cfg.vocab, (cfg.batch_size, cfg.text_len))
    lengths = rng.integers(2, cfg.text_len + 1, cfg.batch_size)
    tokens[np.arange(cfg.text_len)[None] >= lengths[:, None]] = 0
    images = rng.standard_normal((cfg.batch_size, cfg.image_size, cfg.image_size, 3))
    return {"image": images.astype(np.float32), "tokens": tokens.astype(np.int32)}


def main():
    cfg = Config()
    rng = np.random.default_rng(cfg.seed)
    model = DualEncoder(cfg)
    batch = make_batch(rng, cfg)
    params = model.init(jax.random.PRNGKey(cfg.seed), batch["image"], batch["tokens"])["params"]
    tx = optax.lion(cfg.lr, weight_decay=cfg.weight_decay)
    state = train_state.TrainState.create(apply_fn=model.apply, params=params, tx=tx)
    state = state.replace(step=jnp.zeros((), jnp.int32))

    dump = os.environ.get("DUMP_HLO")
    for step in range(cfg.steps):
        batch = make_batch(rng, cfg)
        temperature = temperature_at(step, cfg)
        if dump:
            lowered = train_step.lower(state, batch, temperature)
            with open(f"{dump}.{step}.hlo", "w") as f:
                f.write(lowered.compiler_ir("hlo").as_hlo_text())
        state, metrics = train_step(state, batch, temperature)
        print(step, {k: round(float(v), 4) for k, v in metrics.items()}, train_step._cache_size(), flush=True)


if __name__ == "__main__":
    main()
