"""Document tagger with chunked (memory-efficient) attention in JAX."""
import sys

import jax
import jax.numpy as jnp
import numpy as np

CFG = dict(vocab=64, dim=24, heads=3, depth=2, ffn=48, seq=24, chunk=8, batch=4, tags=6, lr=2e-3)


def dense(key, i, o):
    return {"w": jax.random.normal(key, (i, o)) * i ** -0.5, "b": jnp.zeros((o,))}


def init(key, c):
    ks = iter(jax.random.split(key, 4 + 6 * c["depth"]))
    p = {"embed": jax.random.normal(next(ks), (c["vocab"], c["dim"])) * 0.1,
         "pos": jax.random.normal(next(ks), (c["seq"], c["dim"])) * 0.1, "layers": []}
    for _ in range(c["depth"]):
        p["layers"].append({
            "ln1": jnp.ones((c["dim"],)), "ln2": jnp.ones((c["dim"],)),
            "qkv": dense(next(ks), c["dim"], 3 * c["dim"]), "out": dense(next(ks), c["dim"], c["dim"]),
            "up": dense(next(ks), c["dim"], c["ffn"]), "down": dense(next(ks), c["ffn"], c["dim"]),
        })
    p["head"] = dense(next(ks), c["dim"], c["tags"])
    return p


def apply_dense(p, x):
    return x @ p["w"] + p["b"]


def rms_norm(g, x):
    return g * x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def chunked_attention(q, k, v, chunk):
    b, h, t, d = q.shape
    n = t // chunk
    k = jnp.moveaxis(k.reshape(b, h, n, chunk, d), 2, 0)
    v = jnp.moveaxis(v.reshape(b, h, n, chunk, d), 2, 0)

    def body(carry, kv):
        m, denom, acc = carry
        kc, vc = kv
        s = jnp.einsum("bhtd,bhcd->bhtc", q, kc) * d ** -0.5
        m_new = jnp.maximum(m, s.max(-1))
        scale = jnp.exp(m - m_new)
        p = jnp.exp(s - m_new[..., None])
        denom = denom * scale + p.sum(-1)
        acc = acc * scale[..., None] + jnp.einsum("bhtc,bhcd->bhtd", p, vc)
        return (m_new, denom, acc), None

    m0 = jnp.full((b, h, t), -jnp.inf)
    carry = (m0, jnp.zeros((b, h, t)), jnp.zeros((b, h, t, d)))
    (_, denom, acc), _ = jax.lax.scan(body, carry, (k, v))
    return acc / denom[..., None]


def forward(p, ids, c):
    x = p["embed"][ids] + p["pos"]
    b, t, d = x.shape
    for layer in p["layers"]:
        qkv = apply_dense(layer["qkv"], rms_norm(layer["ln1"], x)).reshape(b, t, 3, c["heads"], -1)
        q, k, v = jnp.moveaxis(qkv, (2, 3), (0, 2))
        a = chunked_attention(q, k, v, c["chunk"])
        x = x + apply_dense(layer["out"], jnp.moveaxis(a, 1, 2).reshape(b, t, d))
        x = x + apply_dense(layer["down"], jax.nn.gelu(apply_dense(layer["up"], rms_norm(layer["ln2"], x))))
    return apply_dense(p["head"], x)


def loss_fn(p, ids, tags):
    logp = jax.nn.log_softmax(forward(p, ids, CFG))
    return -jnp.take_along_axis(logp, tags[..., None], -1).mean()


@jax.jit
def train_step(p, mom, ids, tags):
    loss, g = jax.value_and_grad(loss_fn)(p, ids, tags)
    mom = jax.tree.map(lambda m, x: 0.9 * m + x, mom, g)
    p = jax.tree.map(lambda w, m: w - CFG["lr"] * m, p, mom)
    return p, mom, loss


def main():
    rng = np.random.default_rng(0)
    p = init(jax.random.PRNGKey(0), CFG)
    mom = jax.tree.map(jnp.zeros_like, p)
    for i in range(12):
        ids = rng.integers(0, CFG["vocab"], (CFG["batch"], CFG["seq"])).astype(np.int32)
        p, mom, loss = train_step(p, mom, ids, ids % CFG["tags"])
        if i % 4 == 0:
            print("step", i, "loss", float(loss))
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w") as f:
            f.write(train_step.lower(p, mom, ids, ids % CFG["tags"]).as_text("hlo", debug_info=True))


if __name__ == "__main__":
    main()
