"""Small decoder block in JAX: causal attention, MLP, SGD."""
import sys
import jax
import jax.numpy as jnp
import numpy as np

B, T, D, H, V = 4, 24, 32, 4, 50


def norm(x, scale):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return (x - mu) * jax.lax.rsqrt(var + 1e-5) * scale


def block(p, x):
    y = norm(x, p["n1"])
    q, k, v = jnp.split(y @ p["qkv"], 3, axis=-1)
    heads = lambda t: t.reshape(B, T, H, D // H).transpose(0, 2, 1, 3)
    s = heads(q) @ heads(k).swapaxes(-1, -2) / np.sqrt(D // H)
    s = jnp.where(jnp.tril(jnp.ones((T, T), bool)), s, -1e9)
    o = (jax.nn.softmax(s) @ heads(v)).transpose(0, 2, 1, 3).reshape(B, T, D)
    x = x + o @ p["o"]
    return x + jax.nn.silu(norm(x, p["n2"]) @ p["up"]) @ p["down"]


def loss_fn(p, ids):
    x = p["emb"][ids[:, :-1]]
    x = block(p, x)
    logits = x @ p["emb"].T
    lse = jax.nn.logsumexp(logits, -1)
    tgt = jnp.take_along_axis(logits, ids[:, 1:, None], -1)[..., 0]
    return (lse - tgt).mean() + 1e-4 * (lse ** 2).mean()


@jax.jit
def update(p, ids, lr):
    loss, g = jax.value_and_grad(loss_fn)(p, ids)
    return jax.tree.map(lambda a, b: a - lr * b, p, g), loss


rng = np.random.default_rng(0)
w = lambda *s: jnp.asarray(rng.normal(size=s) * 0.1, jnp.float32)
params = dict(emb=w(V, D), qkv=w(D, 3 * D), o=w(D, D), up=w(D, 4 * D), down=w(4 * D, D),
              n1=jnp.ones(D), n2=jnp.ones(D))
for i in range(3):
    ids = jnp.asarray(rng.integers(0, V, (B, T + 1)), jnp.int32)
    if i == 0 and len(sys.argv) > 1:
        open(sys.argv[1], "w").write(update.lower(params, ids, jnp.float32(0.1)).compiler_ir("hlo").as_hlo_text())
    params, loss = update(params, ids, jnp.float32(0.1))
print(loss)
