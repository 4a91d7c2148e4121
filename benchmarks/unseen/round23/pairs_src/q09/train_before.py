"""Data-parallel masked-token training of a small transformer, two hosts' worth of devices."""
import os

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, PartitionSpec as P

CONF = {"vocab": 32, "dim": 16, "heads": 2, "seq": 10, "layers": 2, "batch": 8, "dropout": 0.1, "lr": 2e-3, "mask_id": 1}
mesh = Mesh(np.array(jax.devices()[:2]), ("data",))


def init_params(key, c):
    d = c["dim"]
    k = iter(jax.random.split(key, 3 + 4 * c["layers"]))
    nrm = lambda shape: jax.random.normal(next(k), shape) * 0.05
    p = {"tok": nrm((c["vocab"], d)), "pos": nrm((c["seq"], d)), "out": nrm((d, c["vocab"]))}
    for i in range(c["layers"]):
        p[f"block{i}"] = {
            "qkv": nrm((d, 3 * d)), "proj": nrm((d, d)), "up": nrm((d, 2 * d)), "down": nrm((2 * d, d)),
            "g1": jnp.ones(d), "g2": jnp.ones(d),
        }
    return p


def norm(x, g):
    return g * x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def dropout(key, x, rate):
    keep = jax.random.bernoulli(key, 1.0 - rate, x.shape)
    return jnp.where(keep, x / (1.0 - rate), 0.0)


def block(p, x, key, c):
    b, t, d = x.shape
    q, k, v = jnp.split(norm(x, p["g1"]) @ p["qkv"], 3, axis=-1)
    heads = lambda a: a.reshape(b, t, c["heads"], -1)
    s = jnp.einsum("bqhd,bkhd->bhqk", heads(q), heads(k)) / np.sqrt(d // c["heads"])
    y = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s, -1), heads(v)).reshape(b, t, d)
    x = x + dropout(key, y @ p["proj"], c["dropout"])
    return x + jax.nn.gelu(norm(x, p["g2"]) @ p["up"]) @ p["down"]


def loss_fn(params, batch, key, c):
    x = params["tok"][batch["input"]] + params["pos"]
    for i in range(c["layers"]):
        key, sub = jax.random.split(key)
        x = block(params[f"block{i}"], x, sub, c)
    logp = jax.nn.log_softmax(x @ params["out"])
    nll = -jnp.take_along_axis(logp, batch["target"][..., None], -1)[..., 0]
    return (nll * batch["weight"]).sum() / batch["weight"].sum()


tx = optax.sgd(CONF["lr"], momentum=0.9)


def replica_step(params, opt_state, batch, key):
    key = jax.random.fold_in(key, jax.lax.axis_index("data"))
    loss, grads = jax.value_and_grad(loss_fn)(params, batch, key, CONF)
    grads = jax.lax.pmean(grads, "data")
    loss = jax.lax.pmean(loss, "data")
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


train_step = jax.jit(jax.shard_map(
    replica_step, mesh=mesh, in_specs=(P(), P(), P("data"), P()), out_specs=(P(), P(), P()), check_vma=False))


def batches(n, c, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        start = rng.integers(2, c["vocab"], (c["batch"], 1))
        target = (2 + (start + np.arange(c["seq"])) % (c["vocab"] - 2)).astype(np.int32)
        masked = rng.random(target.shape) < 0.3
        yield {"input": np.where(masked, c["mask_id"], target).astype(np.int32), "target": target,
               "weight": masked.astype(np.float32) + 1e-3}


if __name__ == "__main__":
    params = init_params(jax.random.PRNGKey(0), CONF)
    opt_state = tx.init(params)
    rng = jax.random.PRNGKey(1)
    for i, batch in enumerate(batches(4, CONF)):
        rng, key = jax.random.split(rng)
        params, opt_state, loss = train_step(params, opt_state, batch, key)
        print(f"step {i}: {float(loss):.5f}")
