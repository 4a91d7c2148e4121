"""Data-parallel char CNN with shard_map; gradients clipped on every replica, then averaged."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("dp",))


def init():
    r = np.random.default_rng(3)
    w = lambda *s: jnp.asarray(r.normal(size=s) * 0.1, jnp.float32)
    return {"emb": w(40, 8), "c1": w(3, 8, 16), "c2": w(3, 16, 16), "fc": w(16, 6), "fb": w(6)}


def conv(x, k):
    return jax.lax.conv_general_dilated(x, k, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))


def loss_fn(p, ids, y):
    h = p["emb"][ids]
    h = jax.nn.relu(conv(h, p["c1"]))
    h = jax.nn.relu(conv(h, p["c2"])).max(1)
    logp = jax.nn.log_softmax(h @ p["fc"] + p["fb"])
    return -jnp.mean(jnp.sum(jax.nn.one_hot(y, 6) * logp, -1))


def clip(g, limit=0.5):
    n = jnp.sqrt(sum(jnp.sum(v ** 2) for v in jax.tree.leaves(g)))
    return jax.tree.map(lambda v: v * jnp.minimum(1.0, limit / (n + 1e-6)), g)


def local_step(p, m, ids, y):
    loss, g = jax.value_and_grad(loss_fn)(p, ids, y)
    g = clip(g)
    g = jax.lax.pmean(g, "dp")
    loss = jax.lax.pmean(loss, "dp")
    m = jax.tree.map(lambda a, b: 0.9 * a + b, m, g)
    p = jax.tree.map(lambda a, b: a - 0.1 * b, p, m)
    return p, m, loss


step = jax.jit(jax.shard_map(local_step, mesh=mesh, in_specs=(P(), P(), P("dp"), P("dp")),
                             out_specs=(P(), P(), P()), check_vma=False))

if __name__ == "__main__":
    p = init()
    m = jax.tree.map(jnp.zeros_like, p)
    r = np.random.default_rng(0)
    for _ in range(4):
        ids = r.integers(0, 40, (16, 20)).astype(np.int32)
        p, m, loss = step(p, m, ids, (ids[:, 0] % 6).astype(np.int32))
    print(float(loss))
