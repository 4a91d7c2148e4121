"""Data-parallel training of a small gated MLP regressor with shard_map."""
import os
from functools import partial

import jax

jax.config.update("jax_num_cpu_devices", 4)

import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

CONFIG = dict(features=10, width=32, depth=2, batch=32, clip=0.5, lr=2e-2, steps=4)


def init_params(key, cfg):
    keys = jax.random.split(key, cfg["depth"] + 2)
    w = cfg["width"]
    params = {"in": jax.random.normal(keys[0], (cfg["features"], w)) / cfg["features"] ** 0.5}
    for i in range(cfg["depth"]):
        k1, k2 = jax.random.split(keys[i + 1])
        params[f"block{i}"] = {
            "gate": jax.random.normal(k1, (w, 2 * w)) / w**0.5,
            "out": 0.5 * jax.random.normal(k2, (w, w)) / w**0.5,
            "bias": jnp.zeros((w,)),
        }
    params["head"] = jax.random.normal(keys[-1], (w, 1)) / w**0.5
    return params


def predict(params, x, depth):
    h = x @ params["in"]
    for i in range(depth):
        p = params[f"block{i}"]
        a, b = jnp.split(h @ p["gate"], 2, axis=-1)
        h = h + (a * jax.nn.sigmoid(b)) @ p["out"] + p["bias"]
    return (h @ params["head"])[:, 0]


def huber(params, x, y, depth):
    return optax.huber_loss(predict(params, x, depth), y, delta=0.7).mean()


def clip_tree(grads, limit):
    norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(grads)))
    factor = jnp.minimum(1.0, limit / (norm + 1e-6))
    return jax.tree.map(lambda g: g * factor, grads)


def build_step(mesh, tx, cfg):
    data = P("data")

    @jax.jit
    @partial(jax.shard_map, mesh=mesh, in_specs=(P(), P(), data, data),
             out_specs=(P(), P(), P()), check_vma=False)
    def step(params, opt_state, x, y):
        loss, grads = jax.value_and_grad(huber)(params, x, y, cfg["depth"])
        grads = jax.lax.pmean(grads, "data")
        grads = clip_tree(grads, cfg["clip"])
        updates, opt_state = tx.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        return params, opt_state, jax.lax.pmean(loss, "data")

    return step


def main(cfg):
    mesh = Mesh(np.array(jax.devices()[:4]), ("data",))
    rng = np.random.default_rng(9)
    params = init_params(jax.random.key(2), cfg)
    tx = optax.sgd(cfg["lr"], momentum=0.9)
    opt_state = tx.init(params)
    step = build_step(mesh, tx, cfg)
    shard = NamedSharding(mesh, P("data"))
    for i in range(cfg["steps"]):
        x = rng.normal(size=(cfg["batch"], cfg["features"])).astype(np.float32)
        y = (x[:, 0] * x[:, 1] + np.sin(x[:, 2])).astype(np.float32)
        x, y = jax.device_put(x, shard), jax.device_put(y, shard)
        if i == 0 and os.environ.get("LOWER_TO"):
            ir = step.lower(params, opt_state, x, y).compiler_ir(dialect="hlo")
            with open(os.environ["LOWER_TO"], "w") as f:
                f.write(ir.as_hlo_text())
        params, opt_state, loss = step(params, opt_state, x, y)
        print(f"{i} loss {float(loss):.5f}")


if __name__ == "__main__":
    main(CONFIG)
