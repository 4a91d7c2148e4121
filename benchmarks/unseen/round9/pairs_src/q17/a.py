"""Byte-level LM with sliding-window attention; params as a flat dataclass tree."""
import os
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class Model:
    vocab: int = 48
    d: int = 32
    heads: int = 4
    depth: int = 2
    seq: int = 24
    window: int = 8

    def init(self, key):
        params = {}
        def add(name, shape, scale):
            nonlocal key
            key, sub = jax.random.split(key)
            params[name] = scale * jax.random.normal(sub, shape)
        add("emb", (self.vocab, self.d), 0.05)
        for i in range(self.depth):
            add(f"l{i}.wqkv", (self.d, 3 * self.d), self.d ** -0.5)
            add(f"l{i}.wo", (self.d, self.d), self.d ** -0.5)
            add(f"l{i}.gate", (self.d, 2 * self.d), self.d ** -0.5)
            add(f"l{i}.up", (self.d, 2 * self.d), self.d ** -0.5)
            add(f"l{i}.down", (2 * self.d, self.d), (2 * self.d) ** -0.5)
        return params

    def rope(self, x):
        t, half = x.shape[-2], x.shape[-1] // 2
        ang = jnp.arange(t)[:, None] * 10000.0 ** (-jnp.arange(half) / half)
        c, s = jnp.cos(ang), jnp.sin(ang)
        a, b = x[..., :half], x[..., half:]
        return jnp.concatenate([a * c - b * s, a * s + b * c], -1)

    def mask(self, t):
        i, j = jnp.arange(t)[:, None], jnp.arange(t)[None, :]
        return (j <= i) & (i - j < self.window)

    def attention(self, p, i, x):
        b, t, _ = x.shape
        q, k, v = jnp.split(x @ p[f"l{i}.wqkv"], 3, -1)
        heads = lambda y: y.reshape(b, t, self.heads, -1).transpose(0, 2, 1, 3)
        q, k, v = self.rope(heads(q)), self.rope(heads(k)), heads(v)
        s = jnp.einsum("bhid,bhjd->bhij", q, k) / jnp.sqrt(q.shape[-1])
        w = jax.nn.softmax(jnp.where(self.mask(t), s, -1e9), -1)
        o = jnp.einsum("bhij,bhjd->bhid", w, v)
        return o.transpose(0, 2, 1, 3).reshape(b, t, -1) @ p[f"l{i}.wo"]

    def norm(self, x):
        return x / jnp.sqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-6)

    def __call__(self, p, ids):
        x = p["emb"][ids]
        for i in range(self.depth):
            x = x + self.attention(p, i, self.norm(x))
            h = self.norm(x)
            x = x + (jax.nn.silu(h @ p[f"l{i}.gate"]) * (h @ p[f"l{i}.up"])) @ p[f"l{i}.down"]
        return self.norm(x) @ p["emb"].T


class Lion:
    def __init__(self, lr=1e-3, b1=0.9, b2=0.99, wd=0.1):
        self.lr, self.b1, self.b2, self.wd = lr, b1, b2, wd

    def init(self, params):
        return jax.tree.map(jnp.zeros_like, params)

    def update(self, grads, m, params):
        u = jax.tree.map(lambda g, m: jnp.sign(self.b1 * m + (1 - self.b1) * g), grads, m)
        m = jax.tree.map(lambda g, m: self.b2 * m + (1 - self.b2) * g, grads, m)
        params = jax.tree.map(lambda p, u: p - self.lr * (u + self.wd * p), params, u)
        return params, m


model, opt = Model(), Lion()


def xent(p, ids):
    logits = model(p, ids[:, :-1])
    lse = jax.nn.logsumexp(logits, -1)
    picked = jnp.take_along_axis(logits, ids[:, 1:, None], -1)[..., 0]
    return (lse - picked).mean() + 1e-4 * jnp.square(lse).mean()


@jax.jit
def step(p, m, ids):
    loss, g = jax.value_and_grad(xent)(p, ids)
    p, m = opt.update(g, m, p)
    return p, m, loss


def main():
    params = model.init(jax.random.PRNGKey(5))
    m = opt.init(params)
    rng = np.random.default_rng(6)
    for it in range(12):
        start = rng.integers(0, model.vocab, (4, 1))
        ids = ((start + np.arange(model.seq + 1) * 5) % model.vocab).astype(np.int32)
        params, m, loss = step(params, m, ids)
        if it % 4 == 0:
            print(it, round(float(loss), 4))
    if "HLO_TEXT" in os.environ:
        text = step.lower(params, m, ids).as_text("hlo", debug_info=True)
        open(os.environ["HLO_TEXT"], "w").write(text)


if __name__ == "__main__":
    main()
