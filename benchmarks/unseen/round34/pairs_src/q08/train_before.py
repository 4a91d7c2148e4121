"""DP-SGD arrhythmia classifier on short ECG windows (flax + optax)."""
import argparse

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import train_state
from jax.flatten_util import ravel_pytree

CLIP, SIGMA, CLASSES = 1.0, 0.6, 4


class ECGNet(nn.Module):
    width: int = 8

    @nn.compact
    def __call__(self, x):
        x = nn.Conv(self.width, (7,), strides=(2,), name="c1")(x)
        x = nn.GroupNorm(num_groups=2, name="g1")(x)
        x = nn.silu(x)
        x = nn.Conv(2 * self.width, (5,), strides=(2,), name="c2")(x)
        x = nn.silu(x)
        x = jnp.concatenate([x.mean(axis=-2), x.max(axis=-2)], axis=-1)
        x = nn.Dense(16, name="fc")(x)
        return nn.Dense(CLASSES, name="out")(nn.tanh(x))


def example_loss(params, apply_fn, x, y):
    logits = apply_fn({"params": params}, x[None])[0]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y)


def clip_tree(g):
    norm = optax.global_norm(g)
    scale = jnp.minimum(1.0, CLIP / jnp.maximum(norm, 1e-8))
    return jax.tree.map(lambda t: t * scale, g)


def add_noise(tree, key, std):
    flat, unravel = ravel_pytree(tree)
    return unravel(flat + std * jax.random.normal(key, flat.shape))


@jax.jit
def train_step(state, x, y, key):
    grad_fn = jax.vmap(jax.value_and_grad(example_loss), in_axes=(None, None, 0, 0))
    losses, grads = grad_fn(state.params, state.apply_fn, x, y)
    grads = jax.vmap(clip_tree)(grads)
    grads = jax.tree.map(lambda g: g.sum(0), grads)
    grads = add_noise(grads, key, SIGMA * CLIP)
    grads = jax.tree.map(lambda g: g / x.shape[0], grads)
    return state.apply_gradients(grads=grads), losses.mean()


def make_state(seed=0, lr=5e-3):
    model = ECGNet()
    params = model.init(jax.random.key(seed), jnp.zeros((1, 48, 2)))["params"]
    return train_state.TrainState.create(apply_fn=model.apply, params=params, tx=optax.adam(lr))


def windows(n, seed=0):
    r = np.random.RandomState(seed)
    y = r.randint(0, CLASSES, n)
    t = np.arange(48)[None, :, None]
    x = np.sin(t * (0.1 + 0.1 * y[:, None, None])) + 0.4 * r.randn(n, 48, 2)
    return x.astype(np.float32), y.astype(np.int32)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=6)
    ap.add_argument("--bs", type=int, default=16)
    a = ap.parse_args()
    state = make_state()
    key = jax.random.key(7)
    x, y = windows(a.bs * a.steps)
    for s in range(a.steps):
        sl = slice(s * a.bs, (s + 1) * a.bs)
        state, loss = train_step(state, x[sl], y[sl], jax.random.fold_in(key, s))
        print(s, float(loss))


if __name__ == "__main__":
    main()
