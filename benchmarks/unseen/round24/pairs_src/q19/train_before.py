import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from flax.training import train_state

PATCHES, CHANNELS, CLASSES, BATCH = 9, 12, 4, 8


class MlpBlock(nn.Module):
    hidden: int

    @nn.compact
    def __call__(self, x):
        y = nn.Dense(self.hidden)(x)
        y = nn.gelu(y)
        return nn.Dense(x.shape[-1])(y)


class MixerBlock(nn.Module):
    token_hidden: int
    channel_hidden: int

    @nn.compact
    def __call__(self, x):
        y = nn.LayerNorm()(x)
        y = jnp.swapaxes(y, 1, 2)
        y = MlpBlock(self.token_hidden, name="token_mixing")(y)
        y = jnp.swapaxes(y, 1, 2)
        x = x + y
        y = nn.LayerNorm()(x)
        return x + MlpBlock(self.channel_hidden, name="channel_mixing")(y)


class Mixer(nn.Module):
    depth: int = 2

    @nn.compact
    def __call__(self, patches):
        x = nn.Dense(CHANNELS, name="stem")(patches)
        for _ in range(self.depth):
            x = MixerBlock(16, 24)(x)
        x = nn.LayerNorm(name="pre_head_norm")(x)
        x = jnp.mean(x, axis=1)
        return nn.Dense(CLASSES, name="head")(x)


def create_state(rng):
    model = Mixer()
    params = model.init(rng, jnp.zeros((1, PATCHES, 12)))["params"]
    tx = optax.chain(
        optax.clip(0.2),
        optax.add_decayed_weights(1e-4),
        optax.sgd(0.05, momentum=0.9, nesterov=True),
    )
    return train_state.TrainState.create(apply_fn=model.apply, params=params, tx=tx)


@jax.jit
def train_step(state, batch):
    def loss_fn(params):
        logits = state.apply_fn({"params": params}, batch["image"])
        onehot = jax.nn.one_hot(batch["label"], CLASSES)
        loss = optax.softmax_cross_entropy(logits, onehot).mean()
        return loss, logits

    (loss, logits), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    state = state.apply_gradients(grads=grads)
    accuracy = jnp.mean(jnp.argmax(logits, -1) == batch["label"])
    return state, {"loss": loss, "accuracy": accuracy}


def batches(key, n):
    protos = jax.random.normal(jax.random.fold_in(key, 99), (CLASSES, PATCHES, 12))
    for i in range(n):
        k1, k2 = jax.random.split(jax.random.fold_in(key, i))
        label = jax.random.randint(k1, (BATCH,), 0, CLASSES)
        yield {"image": protos[label] + jax.random.normal(k2, (BATCH, PATCHES, 12)), "label": label}


def main():
    key = jax.random.PRNGKey(8)
    state = create_state(key)
    for i, batch in enumerate(batches(key, 5)):
        state, metrics = train_step(state, batch)
        print(i, float(metrics["loss"]), float(metrics["accuracy"]))
    return state


if __name__ == "__main__":
    main()
