"""Transformer encoder for sequence tagging in plain JAX, AdamW written out by hand."""
import sys

import jax
import jax.numpy as jnp

CFG = dict(vocab=30, tags=6, dim=16, heads=2, layers=2, seq=10, batch=4, lr=1e-3, wd=0.05, clip=1.0)


def dense_init(key, i, o):
    return {"w": jax.random.normal(key, (i, o)) * i ** -0.5, "b": jnp.zeros(o)}


def init(key, c):
    ks = iter(jax.random.split(key, 4 + 4 * c["layers"]))
    d = c["dim"]
    layers = []
    for _ in range(c["layers"]):
        layers.append({
            "qkv": dense_init(next(ks), d, 3 * d), "proj": dense_init(next(ks), d, d),
            "up": dense_init(next(ks), d, 2 * d), "down": dense_init(next(ks), 2 * d, d),
            "g1": jnp.ones(d), "g2": jnp.ones(d),
        })
    return {
        "emb": jax.random.normal(next(ks), (c["vocab"], d)) * 0.1,
        "pos": jax.random.normal(next(ks), (c["seq"], d)) * 0.1,
        "layers": layers, "out": dense_init(next(ks), d, c["tags"]),
    }


def dense(p, x):
    return x @ p["w"] + p["b"]


def rms(x, g):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * g


def attention(p, x, heads):
    b, n, d = x.shape
    q, k, v = jnp.split(dense(p["qkv"], x), 3, axis=-1)
    q, k, v = (t.reshape(b, n, heads, d // heads) for t in (q, k, v))
    w = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / (d // heads) ** 0.5, axis=-1)
    return dense(p["proj"], jnp.einsum("bhqk,bkhd->bqhd", w, v).reshape(b, n, d))


def forward(params, tokens):
    x = params["emb"][tokens] + params["pos"]
    for p in params["layers"]:
        x = x + attention(p, rms(x, p["g1"]), CFG["heads"])
        x = x + dense(p["down"], jax.nn.gelu(dense(p["up"], rms(x, p["g2"]))))
    return dense(params["out"], x)


def loss_fn(params, batch):
    logp = jax.nn.log_softmax(forward(params, batch["tokens"]))
    nll = -jnp.take_along_axis(logp, batch["tags"][..., None], axis=-1)[..., 0]
    return jnp.sum(nll * batch["mask"]) / jnp.sum(batch["mask"])


def clip_by_global_norm(tree, limit):
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(tree)))
    scale = jnp.minimum(1.0, limit / (norm + 1e-6))
    return jax.tree.map(lambda g: g * scale, tree)


def train_step(params, mu, nu, count, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    grads = clip_by_global_norm(grads, CFG["clip"])
    grads = jax.tree.map(lambda g, p: g + CFG["wd"] * p, grads, params)
    count = count + 1
    mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mu, grads)
    nu = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, nu, grads)
    c1, c2 = 1 - 0.9 ** count, 1 - 0.99 ** count
    params = jax.tree.map(lambda p, m, v: p - CFG["lr"] * (m / c1) / (jnp.sqrt(v / c2) + 1e-8), params, mu, nu)
    return params, mu, nu, count, loss


def make_batch(key):
    k1, k2 = jax.random.split(key)
    tokens = jax.random.randint(k1, (CFG["batch"], CFG["seq"]), 0, CFG["vocab"])
    lengths = jax.random.randint(k2, (CFG["batch"], 1), 4, CFG["seq"] + 1)
    return {"tokens": tokens, "tags": tokens % CFG["tags"], "mask": (jnp.arange(CFG["seq"]) < lengths).astype(jnp.float32)}


def main():
    key = jax.random.PRNGKey(0)
    params = init(key, CFG)
    mu = jax.tree.map(jnp.zeros_like, params)
    nu, count = mu, jnp.zeros(())
    step = jax.jit(train_step)
    if len(sys.argv) > 1:
        lowered = step.lower(params, mu, nu, count, make_batch(key))
        with open(sys.argv[1], "w") as f:
            f.write(lowered.compiler_ir("hlo").get_hlo_module().to_string())
    for i in range(5):
        key, sub = jax.random.split(key)
        params, mu, nu, count, loss = step(params, mu, nu, count, make_batch(sub))
    print("loss", float(loss))


main()
