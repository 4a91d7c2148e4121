"""SimSiam-style pretraining on multivariate sensor windows."""
import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import train_state

BATCH, LENGTH, CHANNELS = 8, 32, 5
TOTAL_STEPS = 200


class TrainState(train_state.TrainState):
    batch_stats: Any


class Encoder(nn.Module):
    width: int = 16

    @nn.compact
    def __call__(self, x, train):
        x = nn.Conv(self.width, (5,), strides=(2,), use_bias=False)(x)
        x = nn.BatchNorm(use_running_average=not train, momentum=0.9)(x)
        return nn.relu(x).mean(axis=1)


class SimSiam(nn.Module):
    dim: int = 24

    def setup(self):
        self.encoder = Encoder()
        self.proj = nn.Dense(self.dim)
        self.pred1 = nn.Dense(self.dim // 4)
        self.pred2 = nn.Dense(self.dim)

    def __call__(self, x, train=True):
        h = self.encoder(x, train)
        z = self.proj(h)
        p = self.pred2(nn.relu(self.pred1(z)))
        return z, p


def augment(key, x):
    k_noise, k_drop = jax.random.split(key)
    x = x + 0.05 * jax.random.normal(k_noise, x.shape)
    keep = jax.random.bernoulli(k_drop, 0.85, (x.shape[0], x.shape[1], 1))
    return jnp.where(keep, x, 0.0)


def l2_normalize(v, eps=1e-6):
    return v / (jnp.linalg.norm(v, axis=-1, keepdims=True) + eps)


def neg_cosine(p, z):
    return -(l2_normalize(p) * l2_normalize(z)).sum(-1).mean()


def loss_fn(params, state, x, key):
    k1, k2 = jax.random.split(key)
    stats = state.batch_stats
    (z1, p1), upd = state.apply_fn(
        {"params": params, "batch_stats": stats}, augment(k1, x), mutable=["batch_stats"])
    (z2, p2), upd = state.apply_fn(
        {"params": params, "batch_stats": upd["batch_stats"]}, augment(k2, x), mutable=["batch_stats"])
    loss = 0.5 * (neg_cosine(p1, z2) + neg_cosine(p2, z1))
    z_std = z1.std(axis=0).mean()
    return loss, (upd["batch_stats"], z_std)


@functools.partial(jax.jit, donate_argnums=(0,))
def train_step(state, x, key):
    grad_fn = jax.value_and_grad(loss_fn, has_aux=True)
    (loss, (stats, z_std)), grads = grad_fn(state.params, state, x, key)
    state = state.apply_gradients(grads=grads, batch_stats=stats)
    return state, {"loss": loss, "z_std": z_std, "grad_norm": optax.global_norm(grads)}


def create_state(key):
    model = SimSiam()
    variables = model.init(key, jnp.zeros((BATCH, LENGTH, CHANNELS)))
    schedule = optax.cosine_decay_schedule(0.05, TOTAL_STEPS)
    tx = optax.chain(optax.add_decayed_weights(1e-4), optax.sgd(schedule, momentum=0.9))
    return TrainState.create(
        apply_fn=model.apply, params=variables["params"], tx=tx, batch_stats=variables["batch_stats"])


def windows(rng):
    t = np.arange(LENGTH)[None, :, None] / LENGTH
    f = rng.uniform(1, 6, (BATCH, 1, CHANNELS))
    return np.sin(2 * np.pi * f * t).astype(np.float32)


def main(steps=4):
    key = jax.random.PRNGKey(0)
    state = create_state(key)
    rng = np.random.default_rng(0)
    for i in range(steps):
        key, sub = jax.random.split(key)
        state, metrics = train_step(state, windows(rng), sub)
        print(i, " ".join(f"{k}={float(v):.4f}" for k, v in metrics.items()))


if __name__ == "__main__":
    main()
