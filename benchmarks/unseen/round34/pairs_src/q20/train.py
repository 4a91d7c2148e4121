"""MLP-Mixer regressing chlorophyll from multi-band satellite tiles, weights in bfloat16, evaluation by an average of weights."""
import os
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

TILE, PATCH, BANDS, DIM = 8, 4, 5, 16


class MixerBlock(nn.Module):
    dtype: Any

    @nn.compact
    def __call__(self, x):
        mlp = partial(nn.Dense, dtype=self.dtype, param_dtype=self.dtype)
        norm = partial(nn.LayerNorm, dtype=self.dtype, param_dtype=self.dtype)
        y = norm()(x).swapaxes(1, 2)
        y = mlp(x.shape[1])(nn.gelu(mlp(8)(y))).swapaxes(1, 2)
        x = x + y
        return x + mlp(DIM)(nn.gelu(mlp(24)(norm()(x))))


class Mixer(nn.Module):
    dtype: Any = jnp.bfloat16

    @nn.compact
    def __call__(self, tiles):
        x = nn.Conv(DIM, (PATCH, PATCH), strides=PATCH, dtype=self.dtype, param_dtype=self.dtype)(tiles)
        x = x.reshape(x.shape[0], -1, DIM)
        x = MixerBlock(self.dtype)(x)
        return nn.Dense(1, dtype=jnp.float32, param_dtype=self.dtype)(x.mean(axis=1))[:, 0]


class State(NamedTuple):
    step: jax.Array
    params: Any
    average: Any
    opt: Any


model = Mixer()
tx = optax.lion(optax.cosine_decay_schedule(2e-3, 200), weight_decay=1e-2)


def decay_at(step, ceiling=0.999):
    n = step.astype(jnp.float32)
    return jnp.minimum(ceiling, (1.0 + n) / (10.0 + n))


@jax.jit
def update(state, tiles, target):
    def loss_fn(params):
        pred = model.apply({"params": params}, tiles)
        return optax.huber_loss(pred, target, delta=0.5).mean()

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    updates, opt = tx.update(grads, state.opt, state.params)
    params = optax.apply_updates(state.params, updates)
    d = decay_at(state.step)
    average = jax.tree.map(lambda a, p: d * a + (1 - d) * p, state.average, params)
    return State(state.step + 1, params, average, opt), loss


def tiles(batch=6, seed=0):
    rng = np.random.default_rng(seed)
    while True:
        x = rng.normal(size=(batch, TILE, TILE, BANDS)).astype(np.float32)
        ndci = x[..., 3].mean((1, 2)) - x[..., 2].mean((1, 2))
        yield x, (4 * ndci + 0.5).astype(np.float32)


def main(steps=5):
    data = tiles()
    x, y = next(data)
    params = model.init(jax.random.PRNGKey(3), x)["params"]
    state = State(jnp.zeros((), jnp.int32), params, params, tx.init(params))
    dump = os.environ.get("DUMP_HLO")
    for i in range(steps):
        if dump and i < 3:
            with open(f"{dump}.{i}", "w") as f:
                f.write(update.lower(state, x, y).as_text(dialect="hlo"))
        state, loss = update(state, x, y)
        print(i, f"{float(loss):.5f}", "compiled programs:", update._cache_size())
        x, y = next(data)


if __name__ == "__main__":
    main()
