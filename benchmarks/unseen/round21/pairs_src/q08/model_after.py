from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Attention(NamedTuple):
    query: jax.Array
    key: jax.Array
    value: jax.Array
    output: jax.Array


class Mlp(NamedTuple):
    w_in: jax.Array
    w_out: jax.Array


class Block(NamedTuple):
    pre_mlp: jax.Array
    pre_attn: jax.Array
    mlp: Mlp
    attn: Attention


def create(rng, dim, hidden):
    def mat(a, b):
        return jnp.asarray(rng.normal(size=(a, b)) / np.sqrt(a), jnp.float32)

    attn = Attention(*(mat(dim, dim) for _ in range(4)))
    mlp = Mlp(mat(dim, hidden), mat(hidden, dim))
    return Block(jnp.ones(dim), jnp.ones(dim), mlp, attn)


def rms_norm(x, scale):
    var = jnp.mean(x * x, axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(var + 1e-6) * scale


@partial(jax.jit, static_argnames="heads")
def attention(p, x, *, heads):
    b, t, d = x.shape
    size = d // heads
    q, k, v = (
        (x @ w).reshape(b, t, heads, size) for w in (p.query, p.key, p.value))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(size)
    mask = jnp.tril(jnp.ones((t, t), bool))
    probs = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", probs, v).reshape(b, t, d) @ p.output


@jax.jit
def feed_forward(p, x):
    return jax.nn.gelu(x @ p.w_in) @ p.w_out


def apply(block, x, heads):
    x = x + attention(block.attn, rms_norm(x, block.pre_attn), heads=heads)
    return x + feed_forward(block.mlp, rms_norm(x, block.pre_mlp))


@jax.jit
def train_step(target, inputs, block):
    def objective(block):
        return jnp.mean((apply(block, inputs, heads=2) - target) ** 2)

    loss, grads = jax.value_and_grad(objective)(block)
    block = jax.tree.map(lambda p, g: p - 0.05 * g, block, grads)
    return loss, block


def main():
    rng = np.random.default_rng(2)
    block = create(rng, 8, 16)
    for _ in range(4):
        x = rng.normal(size=(4, 6, 8)).astype(np.float32)
        loss, block = train_step(np.roll(x, 1, axis=1), x, block)
        print("loss %.4f" % loss)


if __name__ == "__main__":
    main()
