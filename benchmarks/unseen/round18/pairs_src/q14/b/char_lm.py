"""Character language model in plain JAX: pre-norm transformer, Adam written out by hand."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

VOCAB, DIM, HEADS, LAYERS, SEQ, BATCH = 64, 32, 4, 2, 16, 4


def init(key):
    def dense(k, i, o):
        return {"w": jax.random.normal(k, (i, o)) / np.sqrt(i), "b": jnp.zeros(o)}

    keys = iter(jax.random.split(key, 4 * LAYERS + 2))
    layers = []
    for _ in range(LAYERS):
        layers.append({
            "qkv": dense(next(keys), DIM, 3 * DIM),
            "proj": dense(next(keys), DIM, DIM),
            "up": dense(next(keys), DIM, 2 * DIM),
            "down": dense(next(keys), 2 * DIM, DIM),
            "ln1": jnp.ones(DIM),
            "ln2": jnp.ones(DIM),
        })
    return {"emb": jax.random.normal(next(keys), (VOCAB, DIM)) * 0.02,
            "pos": jax.random.normal(next(keys), (SEQ, DIM)) * 0.02,
            "layers": layers}


def linear(p, x):
    return x @ p["w"] + p["b"]


def norm(g, x):
    x = x - x.mean(-1, keepdims=True)
    return g * x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def attention(p, x):
    b, t, _ = x.shape
    q, k, v = jnp.split(linear(p["qkv"], x).reshape(b, t, HEADS, -1), 3, axis=-1)
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(DIM // HEADS)
    s = jnp.where(jnp.tril(jnp.ones((t, t), bool)), s, -1e9)
    return linear(p["proj"], jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s), v).reshape(b, t, DIM))


def loss_fn(params, ids):
    x = params["emb"][ids[:, :-1]] + params["pos"]
    for p in params["layers"]:
        x = x + attention(p, norm(p["ln1"], x))
        x = x + linear(p["down"], jax.nn.gelu(linear(p["up"], norm(p["ln2"], x))))
    logp = jax.nn.log_softmax(x @ params["emb"].T)
    return -jnp.take_along_axis(logp, ids[:, 1:, None], -1).mean()


@partial(jax.jit, donate_argnums=(0,))
def train_step(params, opt, ids):
    loss, grads = jax.value_and_grad(loss_fn)(params, ids)
    count = opt["count"] + 1
    mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, opt["mu"], grads)
    nu = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, opt["nu"], grads)
    c1, c2 = 1 - 0.9 ** count, 1 - 0.99 ** count
    params = jax.tree.map(lambda p, m, v: p - 3e-3 * (m / c1) / (jnp.sqrt(v / c2) + 1e-8), params, mu, nu)
    return params, {"mu": mu, "nu": nu, "count": count}, loss


def main():
    params = init(jax.random.key(0))
    zeros = jax.tree.map(jnp.zeros_like, params)
    opt = {"mu": zeros, "nu": jax.tree.map(jnp.zeros_like, params), "count": jnp.zeros((), jnp.float32)}
    rng = np.random.default_rng(0)
    for step in range(3):
        ids = rng.integers(VOCAB, size=(BATCH, SEQ + 1), dtype=np.int32)
        params, opt, loss = train_step(params, opt, ids)
        print(step, float(loss))


if __name__ == "__main__":
    main()
