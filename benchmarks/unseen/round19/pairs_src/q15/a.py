"""Two-layer transformer-ish regressor, data x model mesh of 4 host devices."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("data", "model"))
D, F, L = 16, 48, 2


def init():
    r = np.random.default_rng(0)
    g = lambda *s: jnp.asarray(r.normal(size=s) / np.sqrt(s[0]), jnp.float32)
    return [dict(q=g(D, D), k=g(D, D), v=g(D, D), up=g(D, F), down=g(F, D)) for _ in range(L)]


def shard(x, *spec):
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))


def layer(p, x):
    q, k, v = x @ p["q"], x @ p["k"], x @ p["v"]
    s = jnp.einsum("btd,bsd->bts", q, k) / D ** 0.5
    x = x + jnp.einsum("bts,bsd->btd", jax.nn.softmax(s, -1), v)
    h = jax.nn.silu(x @ p["up"])
    h = shard(h, "data", None, "model")
    return x + h @ p["down"]


def loss_fn(ps, x, y):
    x = shard(x, "data", None, None)
    for p in ps:
        x = layer(p, x)
    return jnp.mean((x.mean((1, 2)) - y) ** 2)


@jax.jit
def step(ps, acc, x, y):
    loss, g = jax.value_and_grad(loss_fn)(ps, x, y)
    acc = jax.tree.map(lambda a, d: a + d * d, acc, g)
    ps = jax.tree.map(lambda p, a, d: p - 0.05 * d / (jnp.sqrt(a) + 1e-6), ps, acc, g)
    return ps, acc, loss


if __name__ == "__main__":
    ps = init()
    acc = jax.tree.map(jnp.zeros_like, ps)
    rng = np.random.default_rng(1)
    for _ in range(3):
        x = rng.normal(size=(8, 6, D)).astype(np.float32)
        ps, acc, loss = step(ps, acc, x, x.sum((1, 2)))
    print(float(loss))
