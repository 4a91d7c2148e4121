"""Continued pre-training of a small causal LM in bfloat16 (JAX)."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

CFG = dict(vocab=96, dim=32, heads=4, layers=2, seq=16, batch=4)
PEAK_LR, WARMUP_STEPS, TOTAL_STEPS = 3e-3, 2, 8
BETA1, BETA2, EPS, CLIP = 0.9, 0.95, 1e-8, 1.0


def init(key, cfg, dtype=jnp.bfloat16):
    d, keys = cfg["dim"], iter(jax.random.split(key, 64))

    def w(*shape):
        return (jax.random.normal(next(keys), shape) * shape[0] ** -0.5).astype(dtype)

    blocks = [dict(norm1=jnp.ones(d, dtype), qkv=w(d, 3 * d), out=w(d, d),
                   norm2=jnp.ones(d, dtype), up=w(d, 2 * d), gate=w(d, 2 * d), down=w(2 * d, d))
              for _ in range(cfg["layers"])]
    return dict(embed=w(cfg["vocab"], d), pos=w(cfg["seq"], d), blocks=blocks,
                norm=jnp.ones(d, dtype))


def rms_norm(x, weight):
    y = x.astype(jnp.float32)
    y = y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + 1e-6)
    return y.astype(x.dtype) * weight


def attention(p, x, heads):
    b, t, d = x.shape
    q, k, v = (z.reshape(b, t, heads, d // heads) for z in jnp.split(x @ p["qkv"], 3, axis=-1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) * (d // heads) ** -0.5
    scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -1e30)
    att = jax.nn.softmax(scores, axis=-1).astype(x.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", att, v).reshape(b, t, d) @ p["out"]


def forward(params, tokens, heads):
    x = params["embed"][tokens] + params["pos"][: tokens.shape[1]]
    for p in params["blocks"]:
        x = x + attention(p, rms_norm(x, p["norm1"]), heads)
        h = rms_norm(x, p["norm2"])
        x = x + (jax.nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]
    return rms_norm(x, params["norm"]) @ params["embed"].T


def loss_fn(params, tokens, heads):
    logits = forward(params, tokens[:, :-1], heads).astype(jnp.float32)
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


def adam(params, grads, state, lr):
    count = state["count"] + 1
    mu = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, state["mu"], grads)
    nu = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, state["nu"], grads)
    c1, c2 = 1 - BETA1 ** count, 1 - BETA2 ** count

    def update(p, m, v):
        step = (m / c1.astype(m.dtype)) / (jnp.sqrt(v / c2.astype(v.dtype)) + EPS)
        return p - lr * step

    return jax.tree.map(update, params, mu, nu), dict(mu=mu, nu=nu, count=count)


@partial(jax.jit, static_argnames="heads")
def train_step(params, state, tokens, lr, heads):
    loss, grads = jax.value_and_grad(loss_fn)(params, tokens, heads)
    return *adam(params, grads, state, lr), loss


def learning_rate(step):
    if step < WARMUP_STEPS:
        return PEAK_LR * (step + 1) / WARMUP_STEPS
    progress = (step - WARMUP_STEPS) / (TOTAL_STEPS - WARMUP_STEPS)
    return PEAK_LR * 0.5 * (1 + np.cos(np.pi * progress))


def main():
    params = init(jax.random.PRNGKey(0), CFG)
    zeros = partial(jax.tree.map, jnp.zeros_like)
    state = dict(mu=zeros(params), nu=zeros(params), count=jnp.zeros((), jnp.int32))
    rng = np.random.default_rng(0)
    for step in range(4):
        tokens = rng.integers(0, CFG["vocab"], (CFG["batch"], CFG["seq"] + 1), dtype=np.int32)
        params, state, loss = train_step(params, state, tokens, learning_rate(step), heads=CFG["heads"])
        print(step, float(loss), train_step._cache_size())


if __name__ == "__main__":
    main()
