"""Multi-label bird calls from mel patches: small conv mixer, one training step.

usage: python after.py OUT.hlo
"""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training import train_state

BATCH, FRAMES, MELS, SPECIES = 4, 12, 16, 9


class MixerBlock(nn.Module):
    ch: int

    @nn.compact
    def __call__(self, x):
        h = nn.GroupNorm(num_groups=2)(x)
        h = nn.Conv(self.ch, (5, 5), feature_group_count=self.ch, name="depthwise")(h)
        x = x + nn.gelu(h)
        h = nn.GroupNorm(num_groups=2)(x)
        h = nn.Conv(2 * self.ch, (1, 1), name="expand")(h)
        a, g = jnp.split(h, 2, axis=-1)
        return x + a * nn.sigmoid(g)


class AttnPool(nn.Module):
    """Per-class attention over time (as in PANNs)."""
    classes: int

    @nn.compact
    def __call__(self, x):
        att = nn.softmax(jnp.tanh(nn.Dense(self.classes, name="att")(x)), axis=1)
        cla = nn.Dense(self.classes, name="cla")(x)
        return jnp.sum(att * cla, axis=1)


class BirdNet(nn.Module):
    ch: int = 6

    @nn.compact
    def __call__(self, mel):
        x = mel[..., None]
        # per-channel energy normalisation, static
        x = jnp.log1p(x * nn.softplus(self.param("gain", nn.initializers.zeros, (MELS, 1))))
        x = nn.Conv(self.ch, (4, 4), strides=(2, 2), name="stem")(x)
        x = MixerBlock(self.ch)(x)
        x = jnp.mean(x, axis=2)
        return AttnPool(SPECIES)(x)


def decay_mask(params):
    return jax.tree_util.tree_map(lambda p: p.ndim > 1, params)


def make_tx():
    return optax.chain(
        optax.scale_by_adam(b1=0.9, b2=0.98),
        optax.clip_by_global_norm(1.0),
        optax.add_decayed_weights(0.02, mask=decay_mask),
        optax.scale_by_schedule(optax.cosine_decay_schedule(-3e-3, 500, alpha=0.05)),
    )


def loss_fn(params, apply_fn, batch):
    logits = apply_fn({"params": params}, batch["mel"])
    target = batch["target"] * 0.95 + 0.025
    bce = optax.sigmoid_binary_cross_entropy(logits, target)
    # species that nobody annotated in this recording give no gradient
    bce = bce * batch["known"]
    loss = jnp.sum(bce) / jnp.sum(batch["known"])
    hits = jnp.sum((logits > 0) * batch["target"] * batch["known"])
    return loss, hits


def step(state, batch):
    (loss, hits), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params, state.apply_fn, batch)
    return state.apply_gradients(grads=grads), {"loss": loss, "hits": hits, "gnorm": optax.global_norm(grads)}


def make_batch(key):
    a, b, c = jax.random.split(key, 3)
    return {
        "mel": jax.random.uniform(a, (BATCH, FRAMES, MELS)) * 4,
        "target": (jax.random.uniform(b, (BATCH, SPECIES)) > 0.7).astype(jnp.float32),
        "known": (jax.random.uniform(c, (BATCH, SPECIES)) > 0.2).astype(jnp.float32),
    }


def main(path):
    model = BirdNet()
    params = model.init(jax.random.PRNGKey(0), jnp.zeros((BATCH, FRAMES, MELS)))["params"]
    state = train_state.TrainState.create(apply_fn=model.apply, params=params, tx=make_tx())
    run = jax.jit(step)
    with open(path, "w") as f:
        f.write(run.lower(state, make_batch(jax.random.PRNGKey(1))).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(4):
        state, metrics = run(state, make_batch(jax.random.PRNGKey(50 + i)))
        print(i, {k: float(v) for k, v in metrics.items()})


if __name__ == "__main__":
    main(sys.argv[1])
