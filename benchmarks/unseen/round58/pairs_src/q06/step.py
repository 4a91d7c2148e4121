import dataclasses
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState

CLASSES = 10


@dataclasses.dataclass(frozen=True)
class Recipe:
    epochs: int = 4
    lr: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 1e-4
    label_smoothing: float = 0.1
    drop_path: float = 0.2
    ramp: int = 2

    def at(self, epoch):
        return dataclasses.replace(self, drop_path=self.drop_path * min(1.0, epoch / self.ramp))


class ConvBlock(nn.Module):
    width: int
    keep: float = 1.0

    @nn.compact
    def __call__(self, x, train):
        h = nn.Conv(self.width, (3, 3), feature_group_count=self.width, use_bias=False)(x)
        h = nn.GroupNorm(num_groups=4)(h)
        h = nn.Conv(2 * self.width, (1, 1))(h)
        h = nn.Conv(self.width, (1, 1))(nn.relu(h))
        if train and self.keep < 1.0:
            rng = self.make_rng("path")
            gate = jax.random.bernoulli(rng, self.keep, (x.shape[0], 1, 1, 1))
            h = jnp.where(gate, h / self.keep, 0.0)
        return x + h


class Net(nn.Module):
    width: int = 16
    depth: int = 2
    drop_path: float = 0.0

    @nn.compact
    def __call__(self, x, train=False):
        x = nn.Conv(self.width, (4, 4), strides=(4, 4))(x)
        for i in range(self.depth):
            rate = self.drop_path * (i + 1) / self.depth
            x = ConvBlock(self.width, keep=1.0 - rate, name=f"block{i}")(x, train)
        x = nn.LayerNorm()(x.mean((1, 2)))
        return nn.Dense(CLASSES)(x)


def augment(rng, images):
    flip = jax.random.bernoulli(rng, 0.5, (images.shape[0], 1, 1, 1))
    return jnp.where(flip, images[:, :, ::-1], images)


@partial(jax.jit, static_argnames=("recipe",))
def train_step(state, images, labels, rng, recipe):
    r_aug, r_path = jax.random.split(jax.random.fold_in(rng, state.step))
    images = augment(r_aug, images)

    def loss_fn(params):
        net = Net(drop_path=recipe.drop_path)
        logits = net.apply({"params": params}, images, train=True, rngs={"path": r_path})
        target = optax.smooth_labels(jax.nn.one_hot(labels, CLASSES), recipe.label_smoothing)
        return optax.softmax_cross_entropy(logits, target).mean(), logits

    (loss, logits), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    acc = jnp.mean(jnp.argmax(logits, -1) == labels)
    return state.apply_gradients(grads=grads), {"loss": loss, "acc": acc}


def create_state(rng, recipe):
    params = Net().init(rng, jnp.zeros((1, 32, 32, 3)))["params"]
    tx = optax.chain(
        optax.add_decayed_weights(recipe.weight_decay),
        optax.sgd(recipe.lr, momentum=recipe.momentum, nesterov=True),
    )
    state = TrainState.create(apply_fn=Net().apply, params=params, tx=tx)
    return state.replace(step=jnp.zeros((), jnp.int32))


def loader(n, batch=8, seed=0):
    r = np.random.default_rng(seed)
    for _ in range(n):
        yield r.normal(size=(batch, 32, 32, 3)).astype(np.float32), r.integers(0, CLASSES, batch).astype(np.int32)


def main(on_call=None):
    recipe = Recipe()
    rng = jax.random.key(0)
    state = create_state(rng, recipe)
    for epoch in range(recipe.epochs):
        current = recipe.at(epoch + 1)
        for images, labels in loader(2, seed=epoch):
            if on_call is not None:
                on_call(train_step, state, images, labels, rng, current)
            state, metrics = train_step(state, images, labels, rng, current)
        print(epoch, float(metrics["loss"]), train_step._cache_size())


if __name__ == "__main__":
    main()
