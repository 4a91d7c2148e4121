# kind: jax  mode: text  env: XLA_FLAGS=--xla_force_host_platform_device_count=4
import os
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("sp",))
n = mesh.size


def ring_attention(q, k, v):
    me = jax.lax.axis_index("sp")
    b, t, h, d = q.shape
    rows = me * t + jnp.arange(t)
    perm = [(i, (i + 1) % n) for i in range(n)] #A
    perm = [(i, i + 1) for i in range(n - 1)] #B

    def hop(s, j):
        k, v, m, l, o = s
        cols = ((me - j) % n) * t + jnp.arange(t)
        a = jnp.einsum("bqhd,bkhd->bhqk", q, k) * d ** -0.5
        a = jnp.where(rows[:, None] >= cols, a, -1e30)
        m2 = jnp.maximum(m, a.max(-1))
        e = jnp.exp(a - m2[..., None])
        c = jnp.exp(m - m2)
        l = l * c + e.sum(-1)
        o = o * c[..., None] + jnp.einsum("bhqk,bkhd->bhqd", e, v)
        k, v = jax.lax.ppermute((k, v), "sp", perm)
        return (k, v, m2, l, o), None

    s = (k, v, jnp.full((b, h, t), -1e30), jnp.zeros((b, h, t)), jnp.zeros((b, h, t, d)))
    _, _, _, l, o = jax.lax.scan(hop, s, jnp.arange(n))[0]
    return (o / l[..., None]).transpose(0, 2, 1, 3)


def loss_fn(p, x, y):
    b, t, d = x.shape
    q, k, v = ((x @ p[w]).reshape(b, t, 4, d // 4) for w in "qkv")
    out = x + ring_attention(q, k, v).reshape(b, t, d) @ p["o"]
    sq = ((out @ p["head"] - y) ** 2).sum()
    return jax.lax.psum(sq, "sp") / jax.lax.psum(y.size, "sp")


loss = jax.shard_map(loss_fn, mesh=mesh, in_specs=(P(), P(None, "sp"), P(None, "sp")), out_specs=P(), check_vma=False)


@jax.jit
def step(p, x, y):
    l, g = jax.value_and_grad(loss)(p, x, y)
    return jax.tree.map(lambda a, b: a - 0.01 * b, p, g), l


p = {w: jnp.ones((16, 16)) for w in "qkvo"} | {"head": jnp.ones((16, 3))}
open(os.environ["OUT"], "w").write(step.lower(p, jnp.ones((2, 32, 16)), jnp.ones((2, 32, 3))).compiler_ir("hlo").as_hlo_text())
