import functools, os
import numpy as np
import jax, jax.numpy as jnp
from jax import lax

B, T, D, H, C, BLK = 4, 24, 32, 4, 5, 8
HD = D // H


def layernorm(x, p):
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) * lax.rsqrt(v + 1e-5) * p["g"] + p["b"]


def blockwise_attention(q, k, v):
    """softmax(q k^T) v, over blocks of keys, with a running maximum and a running sum"""
    kb = jnp.moveaxis(k.reshape(B, H, T // BLK, BLK, HD), 2, 0)
    vb = jnp.moveaxis(v.reshape(B, H, T // BLK, BLK, HD), 2, 0)

    def body(carry, blk):
        m, l, acc = carry
        kk, vv = blk
        s = jnp.einsum("bhqd,bhkd->bhqk", q, kk) * HD ** -0.5
        m_new = jnp.maximum(m, s.max(-1))
        p = jnp.exp(s - m_new[..., None])
        corr = jnp.exp(m - m_new)
        l = l + p.sum(-1)
        acc = acc * corr[..., None] + jnp.einsum("bhqk,bhkd->bhqd", p, vv)
        return (m_new, l, acc), None

    init = (jnp.full((B, H, T), -1e30), jnp.zeros((B, H, T)), jnp.zeros((B, H, T, HD)))
    (m, l, acc), _ = lax.scan(body, init, (kb, vb))
    return acc / l[..., None]


def block(x, p):
    h = layernorm(x, p["ln1"])
    q, k, v = (jnp.transpose((h @ p[n]).reshape(B, T, H, HD), (0, 2, 1, 3)) for n in ("wq", "wk", "wv"))
    o = jnp.transpose(blockwise_attention(q, k, v), (0, 2, 1, 3)).reshape(B, T, D)
    x = x + o @ p["wo"]
    h = layernorm(x, p["ln2"])
    return x + jax.nn.gelu(h @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]


def forward(params, x):
    h = x @ params["inp"]
    for p in params["blocks"]:
        h = block(h, p)
    return h.mean(1) @ params["head"]


def loss_fn(params, x, y):
    lp = jax.nn.log_softmax(forward(params, x))
    return -jnp.take_along_axis(lp, y[:, None], 1).mean()


def train_step(params, m, v, t, x, y):
    loss, g = jax.value_and_grad(loss_fn)(params, x, y)
    t = t + 1
    m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
    v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
    lr = 1e-3 * jnp.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t)
    params = jax.tree.map(lambda p, a, b: p - lr * a / (jnp.sqrt(b) + 1e-8), params, m, v)
    return params, m, v, t, loss


def init(key):
    ks = iter(jax.random.split(key, 40))
    mat = lambda *s: jax.random.normal(next(ks), s) * 0.3
    ln = lambda: {"g": jnp.ones(D), "b": jnp.zeros(D)}
    blocks = [dict(wq=mat(D, D), wk=mat(D, D), wv=mat(D, D), wo=mat(D, D), w1=mat(D, 64), b1=jnp.zeros(64),
                   w2=mat(64, D), b2=jnp.zeros(D), ln1=ln(), ln2=ln()) for _ in range(2)]
    return {"inp": mat(9, D), "blocks": blocks, "head": mat(D, C)}


if __name__ == "__main__":
    params = init(jax.random.key(0))
    z = jax.tree.map(jnp.zeros_like, params)
    x = jax.random.normal(jax.random.key(1), (B, T, 9))
    y = jax.random.randint(jax.random.key(2), (B,), 0, C)
    args = (params, z, z, jnp.float32(3.0), x, y)
    f = jax.jit(train_step)
    open(os.environ["HLO_OUT"], "w").write(f.lower(*args).as_text("hlo", debug_info=True))
    np.savez(os.environ["NPZ_OUT"], *[np.asarray(a) for a in jax.tree.leaves(f(*args))])
