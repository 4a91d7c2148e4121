"""Data parallel training of a small mixer with shard_map."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

jax.config.update("jax_num_cpu_devices", 4)

CFG = dict(tokens=8, channels=16, hidden=32, classes=5, depth=2, batch=16,
           lr=0.02, momentum=0.9, max_norm=1.0)


def init_params(key, cfg):
    def dense(key, n_in, n_out):
        return {"w": jax.random.normal(key, (n_in, n_out)) / np.sqrt(n_in), "b": jnp.zeros(n_out)}

    keys = iter(jax.random.split(key, 4 * cfg["depth"] + 1))
    blocks = []
    for _ in range(cfg["depth"]):
        blocks.append({
            "tok1": dense(next(keys), cfg["tokens"], cfg["hidden"]),
            "tok2": dense(next(keys), cfg["hidden"], cfg["tokens"]),
            "ch1": dense(next(keys), cfg["channels"], cfg["hidden"]),
            "ch2": dense(next(keys), cfg["hidden"], cfg["channels"]),
        })
    return {"blocks": blocks, "head": dense(next(keys), cfg["channels"], cfg["classes"])}


def apply_dense(p, x):
    return x @ p["w"] + p["b"]


def rms(x):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def forward(params, x):
    for blk in params["blocks"]:
        y = jnp.swapaxes(rms(x), 1, 2)
        y = apply_dense(blk["tok2"], jax.nn.gelu(apply_dense(blk["tok1"], y)))
        x = x + jnp.swapaxes(y, 1, 2)
        x = x + apply_dense(blk["ch2"], jax.nn.gelu(apply_dense(blk["ch1"], rms(x))))
    return apply_dense(params["head"], x.mean(axis=1))


def loss_fn(params, x, y):
    logp = jax.nn.log_softmax(forward(params, x))
    return -jnp.mean(jnp.take_along_axis(logp, y[:, None], axis=1))


def clip_tree(grads, max_norm):
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
    scale = jnp.minimum(1.0, max_norm / (norm + 1e-6))
    return jax.tree.map(lambda g: g * scale, grads)


def make_step(mesh, cfg):
    @jax.jit
    @partial(jax.shard_map, mesh=mesh, in_specs=(P(), P(), P("data"), P("data")),
             out_specs=(P(), P(), P()), check_vma=False)
    def step(params, velocity, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        grads = jax.lax.pmean(grads, "data")
        grads = clip_tree(grads, cfg["max_norm"])
        loss = jax.lax.pmean(loss, "data")
        velocity = jax.tree.map(lambda v, g: cfg["momentum"] * v + g, velocity, grads)
        params = jax.tree.map(lambda p, v: p - cfg["lr"] * v, params, velocity)
        return params, velocity, loss

    return step


def main(cfg=CFG, steps=4, on_step=None):
    mesh = Mesh(np.array(jax.devices()[:4]), ("data",))
    step = make_step(mesh, cfg)
    rng = np.random.default_rng(0)
    params = init_params(jax.random.key(0), cfg)
    velocity = jax.tree.map(jnp.zeros_like, params)
    params, velocity = jax.device_put((params, velocity), NamedSharding(mesh, P()))
    for i in range(steps):
        x = rng.normal(size=(cfg["batch"], cfg["tokens"], cfg["channels"])).astype(np.float32)
        y = rng.integers(0, cfg["classes"], cfg["batch"]).astype(np.int32)
        x, y = jax.device_put((x, y), NamedSharding(mesh, P("data")))
        if on_step is not None:
            on_step(i, step, (params, velocity, x, y))
        params, velocity, loss = step(params, velocity, x, y)
        print(i, float(loss))


if __name__ == "__main__":
    main()
