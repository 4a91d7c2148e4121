# kind: jax  mode: text
import functools
import os
import jax
import jax.numpy as jnp

V, D, H, E, F, L, B, T = 64, 32, 4, 4, 48, 4, 2, 16


def rms(x, g):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g


def rope(x):
    half = x.shape[-1] // 2
    ang = jnp.arange(T)[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    c, s = jnp.cos(ang)[:, None], jnp.sin(ang)[:, None]
    return jnp.concatenate([a * c - b * s, b * c + a * s], -1)


def attend(p, x):
    q, k, v = ((x @ p[w]).reshape(B, T, H, D // H) for w in ("q", "k", "v"))
    a = jnp.einsum("bqhd,bkhd->bhqk", rope(q), rope(k)) / (D // H) ** 0.5
    a = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((T, T), bool)), a, -1e30))
    return jnp.einsum("bhqk,bkhd->bqhd", a, v).reshape(B, T, D) @ p["o"]


def moe(p, x):
    lg = x @ p["router"]
    pr = jax.nn.softmax(lg)
    top, idx = jax.lax.top_k(pr, 2)
    gate = (jax.nn.one_hot(idx, E) * (top / top.sum(-1, keepdims=True))[..., None]).sum(-2)
    h = jax.nn.silu(jnp.einsum("btd,edf->btef", x, p["up"]))
    y = jnp.einsum("btef,efd,bte->btd", h, p["down"], gate)
    balance = E * (pr.mean((0, 1)) * (gate > 0).astype(jnp.float32).mean((0, 1))).sum()
    zloss = (jax.nn.logsumexp(lg, -1) ** 2).mean()
    return y, balance, zloss


def loss_fn(p, ids):
    x, balance, zloss = p["emb"][ids], 0.0, 0.0
    for l in p["layers"]:
        x = x + attend(l, rms(x, l["g1"]))
        y, b, z = moe(l, rms(x, l["g2"]))
        x, balance, zloss = x + y, balance + b, zloss + z
    lp = jax.nn.log_softmax(rms(x, p["g"]) @ p["emb"].T)[:, :-1]
    ce = -jnp.take_along_axis(lp, ids[:, 1:, None], -1).mean()
    return ce + 0.01 * balance + 0.001 * zloss #A
    extra = 0.01 * balance + 0.001 * zloss #B
    return ce + extra #B


@functools.partial(jax.jit, donate_argnums=(0, 1))
def train_step(p, m, ids):
    loss, g = jax.value_and_grad(loss_fn)(p, ids)
    m = jax.tree.map(lambda m, g: 0.95 * m + g, m, g)
    p = jax.tree.map(lambda p, m: p - 0.02 * jnp.sign(m), p, m)
    return p, m, loss


def layer():
    return {w: jnp.ones((D, D)) for w in ("q", "k", "v", "o")} | {
        "g1": jnp.ones(D), "g2": jnp.ones(D), "router": jnp.ones((D, E)), "up": jnp.ones((E, D, F)), "down": jnp.ones((E, F, D))}


p = {"emb": jnp.ones((V, D)), "g": jnp.ones(D), "layers": [layer() for _ in range(L)]}
open(os.environ["OUT"], "w").write(train_step.lower(p, p, jnp.zeros((B, T), jnp.int32)).compiler_ir("hlo").as_hlo_text())
