"""Denoising diffusion on 2-D point sets: conditional MLP, Adam with EMA of the weights."""
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

HIDDEN, DEPTH, BATCH, STEPS, LR = 32, 3, 16, 50, 2e-3
ALPHA_BAR = np.cumprod(1 - np.linspace(1e-4, 0.05, STEPS)).astype(np.float32)


class Layer(NamedTuple):
    w: jax.Array
    b: jax.Array
    film: jax.Array


class Net(NamedTuple):
    stem: jax.Array
    layers: tuple
    head: jax.Array


def make_net(key):
    ks = iter(jax.random.split(key, 2 + 2 * DEPTH))
    w = lambda i, o: jax.random.normal(next(ks), (i, o)) / np.sqrt(i)
    layers = tuple(Layer(w(HIDDEN, HIDDEN), jnp.zeros(HIDDEN), w(16, 2 * HIDDEN) * 0.1) for _ in range(DEPTH))
    return Net(w(2, HIDDEN), layers, w(HIDDEN, 2))


def embed_time(t):
    freq = jnp.exp(jnp.linspace(0.0, 4.0, 8))
    a = (t.astype(jnp.float32) / STEPS)[:, None] * freq
    return jnp.concatenate([jnp.sin(a), jnp.cos(a)], -1)


def predict_noise(net, x, t):
    c = embed_time(t)
    h = x @ net.stem
    for layer in net.layers:
        scale, shift = jnp.split(c @ layer.film, 2, axis=-1)
        mean = h.mean(-1, keepdims=True)
        n = (h - mean) * jax.lax.rsqrt(h.var(-1, keepdims=True) + 1e-5)
        h = h + jax.nn.silu((n * (1 + scale) + shift) @ layer.w + layer.b)
    return h @ net.head


def objective(net, x0, t, noise):
    ab = jnp.asarray(ALPHA_BAR)[t][:, None]
    xt = jnp.sqrt(ab) * x0 + jnp.sqrt(1 - ab) * noise
    return jnp.square(predict_noise(net, xt, t) - noise).mean()


@jax.jit
def ddpm_update(noise, t, x0, net, ema, count, nu, mu):
    loss, g = jax.value_and_grad(objective)(net, x0, t, noise)
    count = count + 1
    mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mu, g)
    nu = jax.tree.map(lambda n, g: 0.999 * n + 0.001 * jnp.square(g), nu, g)
    rate = LR * jnp.sqrt(1 - 0.999 ** count) / (1 - 0.9 ** count)
    net = jax.tree.map(lambda p, m, n: p - rate * m / (jnp.sqrt(n) + 1e-8), net, mu, nu)
    ema = jax.tree.map(lambda e, p: 0.995 * e + 0.005 * p, ema, net)
    return net, mu, nu, ema, count, loss


train_step = ddpm_update


def sample(rng):
    angle = rng.uniform(0, 2 * np.pi, BATCH)
    x0 = np.stack([np.cos(angle), np.sin(angle)], 1).astype(np.float32)
    t = rng.integers(0, STEPS, BATCH)
    return rng.standard_normal((BATCH, 2)).astype(np.float32), t, x0


def example_args():
    net = make_net(jax.random.key(0))
    zero = jax.tree.map(jnp.zeros_like, net)
    return (*sample(np.random.default_rng(0)), net, net, jnp.zeros(()), zero, zero)


if __name__ == "__main__":
    rng = np.random.default_rng(5)
    *_, net, ema, count, nu, mu = example_args()
    for i in range(20):
        net, mu, nu, ema, count, loss = train_step(*sample(rng), net, ema, count, nu, mu)
        if i % 5 == 0:
            print(i, float(loss))
