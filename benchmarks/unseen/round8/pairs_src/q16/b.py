import os
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
import numpy as np
import jax, jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

jax.config.update("jax_use_shardy_partitioner", False)
B, T, D, H, FF, V = 8, 8, 16, 4, 64, 48
mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))


def shard(x, *spec):
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))


def rms(x, g):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g


def attn(x, p):
    q = shard(jnp.einsum("btd,dhk->bthk", x, p["wq"]), "data", None, "model", None)
    k = shard(jnp.einsum("btd,dhk->bthk", x, p["wk"]), "data", None, "model", None)
    v = shard(jnp.einsum("btd,dhk->bthk", x, p["wv"]), "data", None, "model", None)
    s = jnp.einsum("bqhk,bthk->bhqt", q, k) * (D // H) ** -0.5
    s = jnp.where(jnp.tril(jnp.ones((T, T), bool)), s, -1e9)
    o = jnp.einsum("bhqt,bthk->bqhk", jax.nn.softmax(s), v)
    return shard(jnp.einsum("bqhk,hkd->bqd", o, p["wo"]), "data", None, None)


def mlp(x, p):
    h = jax.nn.silu(x @ p["wg"]) * (x @ p["wu"])
    h = shard(h, "data", "model", None)
    return shard(h @ p["wd"], "data", None, None)


def loss_fn(params, ids):
    x = shard(params["emb"][ids[:, :-1]], "data", None, None)
    for p in params["layers"]:
        x = x + attn(rms(x, p["n1"]), p)
        x = x + mlp(rms(x, p["n2"]), p)
    logits = rms(x, params["n"]) @ params["emb"].T
    lp = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(lp, ids[:, 1:, None], -1).mean()


def lion(p, m, g, lr=1e-4, b1=0.9, b2=0.99, wd=0.1):
    u = jnp.sign(b1 * m + (1 - b1) * g)
    return p - lr * (u + wd * p), b2 * m + (1 - b2) * g


def train_step(params, mom, ids):
    loss, g = jax.value_and_grad(loss_fn)(params, ids)
    leaves, tree = jax.tree.flatten(params)
    out = [lion(p, m, q) for p, m, q in zip(leaves, jax.tree.leaves(mom), jax.tree.leaves(g))]
    return tree.unflatten([o[0] for o in out]), tree.unflatten([o[1] for o in out]), loss


SPECS = {"wq": P(None, "model", None), "wk": P(None, "model", None), "wv": P(None, "model", None),
         "wo": P("model", None, None), "wg": P(None, "model"), "wu": P(None, "model"), "wd": P("model", None)}


def init(key):
    ks = iter(jax.random.split(key, 40))
    put = lambda n, a: jax.device_put(a, NamedSharding(mesh, SPECS.get(n, P())))
    mat = lambda n, *s: put(n, jax.random.normal(next(ks), s) * 0.2)
    hd = D // H
    layers = [dict(wq=mat("wq", D, H, hd), wk=mat("wk", D, H, hd), wv=mat("wv", D, H, hd), wo=mat("wo", H, hd, D),
                   wg=mat("wg", D, FF), wu=mat("wu", D, FF), wd=mat("wd", FF, D),
                   n1=put("n1", jnp.ones(D)), n2=put("n2", jnp.ones(D))) for _ in range(2)]
    return {"emb": mat("emb", V, D), "layers": layers, "n": put("n", jnp.ones(D))}


if __name__ == "__main__":
    params = init(jax.random.key(0))
    mom = jax.tree.map(lambda a: a * 0.01, params)
    ids = jax.device_put(jax.random.randint(jax.random.key(1), (B, T + 1), 0, V), NamedSharding(mesh, P("data")))
    f = jax.jit(train_step, donate_argnums=(0, 1))
    open(os.environ["HLO_OUT"], "w").write(f.lower(params, mom, ids).compiler_ir("hlo").as_hlo_text())
    np.savez(os.environ["NPZ_OUT"], *[np.asarray(a) for a in jax.tree.leaves(f(params, mom, ids))])
