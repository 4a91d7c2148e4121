"""Mixer over EEG channels and time patches, sleep staging with label smoothing."""
import os
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.environ.get("HLO_OUT", os.path.join(HERE, "b.hlo"))
STAGES = 5


class MixerBlock(nn.Module):
    hidden: int

    @nn.compact
    def __call__(self, x):
        tokens, width = x.shape[-2:]
        h = nn.LayerNorm()(x).swapaxes(-1, -2)
        h = nn.Dense(tokens)(nn.gelu(nn.Dense(self.hidden)(h)))
        x = x + h.swapaxes(-1, -2)
        h = nn.LayerNorm()(x)
        return x + nn.Dense(width)(nn.gelu(nn.Dense(self.hidden)(h)))


class SleepMixer(nn.Module):
    width: int = 8

    @nn.compact
    def __call__(self, eeg):
        b, channels, samples = eeg.shape
        patches = eeg.reshape(b, channels * 4, samples // 4)
        x = nn.Dense(self.width)(patches)
        x = MixerBlock(10)(x)
        return nn.Dense(STAGES)(nn.LayerNorm()(x).mean(axis=-2))


def make_optimizer():
    decay_mask = lambda params: jax.tree_util.tree_map(lambda p: p.ndim > 1, params)
    return optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.add_decayed_weights(0.05, mask=decay_mask),
        optax.scale_by_adam(b2=0.98),
        optax.scale_by_learning_rate(optax.cosine_decay_schedule(2e-3, 500)),
    )


model = SleepMixer()
tx = make_optimizer()


def loss_fn(params, eeg, stage):
    logits = model.apply({"params": params}, eeg)
    target = optax.smooth_labels(jax.nn.one_hot(stage, STAGES), 0.1)
    return optax.softmax_cross_entropy(logits, target).mean()


def step(params, opt_state, eeg, stage):
    loss, grads = jax.value_and_grad(loss_fn)(params, eeg, stage)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def main(steps=2):
    key = jax.random.PRNGKey(4)
    eeg = jax.random.normal(key, (4, 2, 32))
    stage = jax.random.randint(key, (4,), 0, STAGES)
    params = model.init(key, eeg)["params"]
    state = tx.init(params)
    fn = jax.jit(step)
    with open(OUT, "w") as f:
        f.write(fn.lower(params, state, eeg, stage).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(steps):
        params, state, loss = fn(params, state, eeg, stage)
        print(i, float(loss), file=sys.stderr)


if __name__ == "__main__":
    main()
