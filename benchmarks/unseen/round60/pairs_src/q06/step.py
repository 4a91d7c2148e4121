"""Rectified flow on 8x8 synthetic sprites: small FiLM-conditioned conv net, EMA weights."""
import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct


class FilmBlock(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x, emb):
        h = nn.GroupNorm(num_groups=4)(x)
        h = nn.Conv(self.width, (3, 3))(nn.silu(h))
        scale, shift = jnp.split(nn.Dense(2 * self.width)(nn.silu(emb))[:, None, None], 2, -1)
        h = h * (1 + scale) + shift
        h = nn.Conv(self.width, (3, 3), kernel_init=nn.initializers.zeros)(nn.silu(h))
        return x + h


class Velocity(nn.Module):
    width: int = 16
    depth: int = 1
    classes: int = 4

    @nn.compact
    def __call__(self, x, t, label):
        freqs = jnp.exp(jnp.linspace(0.0, 5.0, self.width // 2))
        arg = t[:, None] * freqs
        emb = jnp.concatenate([jnp.sin(arg), jnp.cos(arg)], -1)
        emb = nn.Dense(self.width)(jnp.concatenate([emb, jax.nn.one_hot(label, self.classes)], -1))
        h = nn.Conv(self.width, (3, 3))(x)
        for _ in range(self.depth):
            h = FilmBlock(self.width)(h, emb)
        return nn.Conv(x.shape[-1], (3, 3))(nn.silu(h))


@struct.dataclass
class State:
    step: jax.Array
    params: Any
    ema: Any
    opt: Any


model = Velocity()
schedule = optax.warmup_cosine_decay_schedule(0.0, 2e-3, 8, 80)
tx = optax.adam(schedule, b2=0.99)


def flow_loss(params, x1, x0, label, key):
    t = jax.random.uniform(key, x1.shape[:1])
    xt = t[:, None, None, None] * x1 + (1 - t)[:, None, None, None] * x0
    v = model.apply({"params": params}, xt, t, label)
    return jnp.mean((v - (x1 - x0)) ** 2)


@functools.partial(jax.jit, static_argnames=("decay",), donate_argnums=(0,))
def train_step(state, x, noise, label, key, *, decay):
    key = jax.random.fold_in(key, state.step)
    loss, grads = jax.value_and_grad(flow_loss)(state.params, x, noise, label, key)
    updates, opt = tx.update(grads, state.opt, state.params)
    params = optax.apply_updates(state.params, updates)
    ema = jax.tree.map(lambda e, p: decay * e + (1.0 - decay) * p, state.ema, params)
    return State(state.step + 1, params, ema, opt), {"loss": loss, "gnorm": optax.global_norm(grads)}


def sprites(rng, n):
    label = rng.integers(0, model.classes, n)
    x = rng.normal(0, 0.1, (n, 8, 8, 1))
    for i, c in enumerate(label):
        r, s = rng.integers(0, 4, 2)
        x[i, r:r + 4, s:s + 4] += (1.0, -1.0)[c % 2]
        if c >= 2:
            x[i, r + 1:r + 3, s + 1:s + 3] = 0.0
    noise = rng.normal(size=x.shape)
    return x.astype(np.float32), noise.astype(np.float32), label.astype(np.int32)


def ema_decay(epoch, target=0.999):
    return min(target, (1 + epoch) / (10 + epoch))


def main(epochs=3, per_epoch=8, batch=16):
    rng = np.random.default_rng(0)
    key = jax.random.key(0)
    x, _, label = sprites(rng, batch)
    params = model.init(jax.random.key(1), x, jnp.zeros(batch), label)["params"]
    state = State(jnp.zeros((), jnp.int32), params, jax.tree.map(jnp.copy, params), tx.init(params))
    for epoch in range(epochs):
        decay = ema_decay(epoch)
        for _ in range(per_epoch):
            x, noise, label = sprites(rng, batch)
            state, metrics = train_step(state, x, noise, label, key, decay=decay)
        print(epoch, {k: round(float(v), 4) for k, v in metrics.items()})


if __name__ == "__main__":
    main()
