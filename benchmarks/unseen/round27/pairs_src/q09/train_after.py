"""Point-cloud diffusion. Same model as the notebook, state kept in one NamedTuple."""
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

STEPS, WIDTH, NUM_HEADS = 50, 16, 2
HEAD_DIM = WIDTH // NUM_HEADS
ADAM = {"lr": 2e-3, "b1": 0.9, "b2": 0.999, "eps": 1e-8}
EMA_DECAY = 0.995


class Moments(NamedTuple):
    second: Any
    first: Any


class State(NamedTuple):
    rng: jax.Array
    step: jax.Array
    averaged: Any
    moments: Moments
    weights: Any


def scaled(key, fan_in, *shape):
    return random.normal(key, shape) / np.sqrt(fan_in)


def initial_weights(key):
    k = random.split(key, 7)
    attn = {n: scaled(kk, WIDTH, WIDTH, WIDTH) for n, kk in zip(("query", "key", "value"), k[2:5])}
    return {
        "embed": {"points": {"kernel": scaled(k[0], 2, 2, WIDTH), "bias": jnp.zeros(WIDTH)},
                  "time": scaled(k[1], WIDTH, WIDTH, WIDTH)},
        "attention": attn,
        "prenorm": {"shift": jnp.zeros(WIDTH), "gain": jnp.ones(WIDTH)},
        "readout": {"hidden": scaled(k[5], WIDTH, WIDTH, 2 * WIDTH),
                    "kernel": scaled(k[6], 2 * WIDTH, 2 * WIDTH, 2), "bias": jnp.zeros(2)},
    }


@jax.jit
def fourier(t):
    half = WIDTH // 2
    angles = jnp.einsum("b,f->bf", t, jnp.exp(-jnp.log(1000.0) * jnp.arange(half) / half))
    return jnp.concatenate((jnp.sin(angles), jnp.cos(angles)), axis=1)


@jax.jit
def standardise(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5)


def attend(w, x):
    to_heads = lambda m: jnp.einsum("bnd,dhe->bnhe", x, m.reshape(WIDTH, NUM_HEADS, HEAD_DIM))
    value, key, query = (to_heads(w[n]) for n in ("value", "key", "query"))
    logits = jnp.einsum("bnhe,bmhe->bhnm", query * HEAD_DIM ** -0.5, key)
    logits = logits - lax.stop_gradient(logits.max(-1, keepdims=True))
    probs = jnp.exp(logits)
    probs = probs / probs.sum(-1, keepdims=True)
    return jnp.einsum("bhnm,bmhe->bnhe", probs, value).reshape(x.shape)


def predict_noise(w, noisy, t):
    e = w["embed"]
    time = jnp.expand_dims(fourier(t) @ e["time"], 1)
    h = time + (jnp.einsum("bnc,cd->bnd", noisy, e["points"]["kernel"]) + e["points"]["bias"])
    h = attend(w["attention"], w["prenorm"]["shift"] + w["prenorm"]["gain"] * standardise(h)) + h
    r = w["readout"]
    return r["bias"] + jax.nn.silu(h @ r["hidden"]) @ r["kernel"]


def signal_level(t):
    keep = 1.0 - jnp.linspace(1e-4, 0.05, STEPS)
    return jnp.cumprod(keep)[t].reshape(-1, 1, 1)


def objective(weights, rng, clean):
    rng_t, rng_noise = random.split(rng)
    noise = random.normal(rng_noise, clean.shape)
    t = random.randint(rng_t, clean.shape[:1], 0, STEPS)
    level = signal_level(t)
    noisy = jnp.sqrt(1.0 - level) * noise + jnp.sqrt(level) * clean
    residual = noise - predict_noise(weights, noisy, t.astype(jnp.float32))
    return jnp.sum(residual * residual) / residual.size


def adam(g, w, m, v, step):
    m = (1.0 - ADAM["b1"]) * g + ADAM["b1"] * m
    v = (1.0 - ADAM["b2"]) * jnp.square(g) + ADAM["b2"] * v
    m_hat, v_hat = m / (1.0 - ADAM["b1"] ** step), v / (1.0 - ADAM["b2"] ** step)
    return w - ADAM["lr"] * m_hat / (ADAM["eps"] + jnp.sqrt(v_hat)), m, v


@jax.jit
def fit_batch(clean, state):
    carry, rng = random.split(state.rng)
    value, grad = jax.value_and_grad(objective)(state.weights, rng, clean)
    step = 1 + state.step
    leaves, tree = jax.tree.flatten(state.weights)
    parts = [tree.flatten_up_to(t) for t in (grad, state.moments.first, state.moments.second)]
    triples = [adam(g, w, m, v, step) for w, g, m, v in zip(leaves, *parts)]
    weights, first, second = (tree.unflatten(col) for col in zip(*triples))
    averaged = jax.tree.map(lambda w, e: (1.0 - EMA_DECAY) * w + EMA_DECAY * e, weights, state.averaged)
    return value, State(carry, step, averaged, Moments(second, first), weights)


def sample_rings(rs, n):
    th = rs.uniform(0, 2 * np.pi, (n, 12))
    r = 1 + 0.05 * rs.randn(n, 12)
    return np.stack([r * np.cos(th), r * np.sin(th)], -1).astype(np.float32)


def main():
    weights = initial_weights(random.PRNGKey(0))
    zeros = jax.tree.map(jnp.zeros_like, weights)
    state = State(random.PRNGKey(1), jnp.zeros((), jnp.float32), weights, Moments(zeros, zeros), weights)
    rs = np.random.RandomState(0)
    for i in range(4):
        loss, state = fit_batch(sample_rings(rs, 6), state)
        print(i, float(loss))


if __name__ == "__main__":
    main()
