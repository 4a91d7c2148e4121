"""Data-parallel image classifier, flax + pmap."""
import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import jax_utils
from flax.training import train_state

CONFIG = {
    "num_classes": 6,
    "image": (10, 10, 3),
    "per_device_batch": 8,
    "widths": (12,),
    "lr": 0.1,
    "momentum": 0.9,
    "bn_momentum": 0.9,
    "steps": 2,
}


class TrainState(train_state.TrainState):
    batch_stats: Any


class ResidualBlock(nn.Module):
    features: int
    norm: Any

    @nn.compact
    def __call__(self, x):
        residual = x
        y = nn.Conv(self.features, (3, 3), strides=(2, 2), use_bias=False)(x)
        y = nn.relu(self.norm()(y))
        y = nn.Conv(self.features, (3, 3), use_bias=False)(y)
        y = self.norm(scale_init=nn.initializers.zeros)(y)
        residual = nn.Conv(self.features, (1, 1), strides=(2, 2), use_bias=False)(residual)
        residual = self.norm()(residual)
        return nn.relu(y + residual)


class SmallResNet(nn.Module):
    num_classes: int
    widths: tuple

    @nn.compact
    def __call__(self, x, train: bool):
        norm = functools.partial(
            nn.BatchNorm,
            use_running_average=not train,
            momentum=CONFIG["bn_momentum"],
        )
        for width in self.widths:
            x = ResidualBlock(width, norm)(x)
        return nn.Dense(self.num_classes)(x.mean(axis=(1, 2)))


def create_state(rng, cfg):
    model = SmallResNet(cfg["num_classes"], cfg["widths"])
    variables = model.init(rng, jnp.ones((1,) + cfg["image"]), train=False)
    return TrainState.create(
        apply_fn=model.apply,
        params=variables["params"],
        batch_stats=variables["batch_stats"],
        tx=optax.sgd(cfg["lr"], momentum=cfg["momentum"], nesterov=True),
    )


def train_step(state, images, labels):
    def loss_fn(params):
        logits, updates = state.apply_fn(
            {"params": params, "batch_stats": state.batch_stats},
            images,
            train=True,
            mutable=["batch_stats"],
        )
        loss = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
        return loss, (logits, updates)

    (loss, (logits, updates)), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    grads = jax.lax.pmean(grads, axis_name="batch")
    state = state.apply_gradients(grads=grads, batch_stats=updates["batch_stats"])
    metrics = {"loss": loss, "accuracy": jnp.mean(logits.argmax(-1) == labels)}
    return state, jax.lax.pmean(metrics, axis_name="batch")


p_train_step = jax.pmap(train_step, axis_name="batch")


def fake_batch(rng, n_dev, cfg):
    images = rng.normal(size=(n_dev, cfg["per_device_batch"]) + cfg["image"])
    labels = rng.integers(0, cfg["num_classes"], (n_dev, cfg["per_device_batch"]))
    return images.astype(np.float32), labels.astype(np.int32)


def main():
    n_dev = jax.local_device_count()
    state = jax_utils.replicate(create_state(jax.random.key(0), CONFIG))
    rng = np.random.default_rng(0)
    for step in range(CONFIG["steps"]):
        state, metrics = p_train_step(state, *fake_batch(rng, n_dev, CONFIG))
        print(step, {k: float(v[0]) for k, v in metrics.items()})


if __name__ == "__main__":
    main()
