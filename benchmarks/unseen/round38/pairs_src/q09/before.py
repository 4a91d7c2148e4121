"""MLP-mixer over mel patches: which bird species sing in a clip (multi-label)."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

CLIPS, PATCHES, MELS, DIM, SPECIES = 4, 6, 10, 12, 5


class MixerBlock(nn.Module):
    token_dim: int
    channel_dim: int

    @nn.compact
    def __call__(self, x):
        y = nn.LayerNorm()(x)
        y = jnp.swapaxes(y, 1, 2)
        y = nn.Dense(self.token_dim)(y)
        y = nn.Dense(PATCHES)(nn.gelu(y))
        x = x + jnp.swapaxes(y, 1, 2)
        y = nn.LayerNorm()(x)
        y = nn.Dense(self.channel_dim)(y)
        return x + nn.Dense(x.shape[-1])(nn.gelu(y))


class BirdMixer(nn.Module):
    @nn.compact
    def __call__(self, mel):
        x = nn.Dense(DIM)(jnp.log1p(10.0 * mel))
        x = MixerBlock(8, 16)(x)
        x = nn.LayerNorm()(x)
        att = nn.softmax(nn.Dense(SPECIES)(x), axis=1)
        clip = jnp.sum(att * nn.Dense(SPECIES)(x), axis=1)
        return clip


model = BirdMixer()
schedule = optax.warmup_cosine_decay_schedule(0.0, 2e-3, 10, 200, 1e-5)
opt = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.scale_by_adam(b1=0.9, b2=0.95),
    optax.add_decayed_weights(0.01),
    optax.scale_by_learning_rate(schedule),
)


def loss_fn(params, mel, target):
    logits = model.apply({"params": params}, mel)
    target = 0.95 * target + 0.025
    return optax.sigmoid_binary_cross_entropy(logits, target).sum(-1).mean()


@jax.jit
def step(params, state, mel, target):
    loss, grads = jax.value_and_grad(loss_fn)(params, mel, target)
    updates, state = opt.update(grads, state, params)
    return optax.apply_updates(params, updates), state, loss


def batch(key):
    a, b = jax.random.split(key)
    return (jax.random.uniform(a, (CLIPS, PATCHES, MELS)),
            (jax.random.uniform(b, (CLIPS, SPECIES)) < 0.3).astype(jnp.float32))


def main(path):
    mel, target = batch(jax.random.PRNGKey(7))
    params = model.init(jax.random.PRNGKey(0), mel)["params"]
    state = opt.init(params)
    with open(path, "w") as f:
        f.write(step.lower(params, state, mel, target).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(3):
        params, state, loss = step(params, state, *batch(jax.random.PRNGKey(i)))
        print(i, float(loss))


if __name__ == "__main__":
    main(sys.argv[1])
