"""Half precision sequence tagger in plain JAX: GRU over time, masked cross entropy."""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

HP = dict(vocab=30, emb=12, hidden=16, tags=7, batch=6, length=9, peak_lr=0.2,
          warmup=3, clip=1.0, mu=0.9, dtype=jnp.bfloat16)


class TrainState(NamedTuple):
    params: dict
    velocity: dict
    step: jax.Array


def glorot(key, shape, dtype):
    scale = (2.0 / sum(shape)) ** 0.5
    return (scale * jax.random.normal(key, shape)).astype(dtype)


def init_params(key, hp):
    k = iter(jax.random.split(key, 4))
    d = hp["dtype"]
    return {
        "embed": glorot(next(k), (hp["vocab"], hp["emb"]), d),
        "gru": {
            "wx": glorot(next(k), (hp["emb"], 3 * hp["hidden"]), d),
            "wh": glorot(next(k), (hp["hidden"], 3 * hp["hidden"]), d),
            "b": jnp.zeros((3 * hp["hidden"],), d),
        },
        "out": {
            "w": glorot(next(k), (hp["hidden"], hp["tags"]), d),
            "b": jnp.zeros((hp["tags"],), d),
        },
    }


def gru_cell(p, h, x):
    zx = x @ p["wx"] + p["b"]
    zh = h @ p["wh"]
    rx, ux, nx = jnp.split(zx, 3, axis=-1)
    rh, uh, nh = jnp.split(zh, 3, axis=-1)
    r, u = jax.nn.sigmoid(rx + rh), jax.nn.sigmoid(ux + uh)
    n = jnp.tanh(nx + r * nh)
    h = (1 - u) * n + u * h
    return h, h


def forward(params, tokens):
    x = params["embed"][tokens].swapaxes(0, 1)
    h0 = jnp.zeros((tokens.shape[0], params["gru"]["wh"].shape[0]), x.dtype)
    _, hs = jax.lax.scan(partial(gru_cell, params["gru"]), h0, x)
    return hs.swapaxes(0, 1) @ params["out"]["w"] + params["out"]["b"]


def loss_fn(params, tokens, tags):
    logp = jax.nn.log_softmax(forward(params, tokens).astype(jnp.float32))
    mask = (tokens > 0).astype(jnp.float32)
    nll = -jnp.take_along_axis(logp, tags[..., None], axis=-1)[..., 0]
    return (nll * mask).sum() / mask.sum()


def schedule(step, hp):
    return hp["peak_lr"] * jnp.minimum(1.0, (step + 1) / hp["warmup"])


def clip_by_norm(grads, limit):
    norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(grads)))
    factor = jnp.minimum(1.0, limit / (norm + 1e-6))
    return jax.tree.map(lambda g: g * factor, grads), norm


@jax.jit
def train_step(state, tokens, tags):
    loss, grads = jax.value_and_grad(loss_fn)(state.params, tokens, tags)
    grads, norm = clip_by_norm(grads, HP["clip"])
    velocity = jax.tree.map(lambda v, g: HP["mu"] * v + g, state.velocity, grads)
    lr = schedule(state.step, HP)
    params = jax.tree.map(lambda p, v: p - lr * v, state.params, velocity)
    return TrainState(params, velocity, state.step + 1), {"loss": loss, "grad_norm": norm}


def sample(rng, hp):
    tokens = rng.integers(1, hp["vocab"], (hp["batch"], hp["length"]))
    for row, n in enumerate(rng.integers(3, hp["length"] + 1, hp["batch"])):
        tokens[row, n:] = 0
    tags = (tokens * 3 + 1) % hp["tags"]
    return jnp.asarray(tokens, jnp.int32), jnp.asarray(tags, jnp.int32)


def main(steps=5):
    params = init_params(jax.random.PRNGKey(0), HP)
    state = TrainState(params, jax.tree.map(jnp.zeros_like, params), jnp.int32(0))
    rng = np.random.default_rng(0)
    for _ in range(steps):
        state, metrics = train_step(state, *sample(rng, HP))
        print({k: round(float(v), 4) for k, v in metrics.items()})


if __name__ == "__main__":
    main()
