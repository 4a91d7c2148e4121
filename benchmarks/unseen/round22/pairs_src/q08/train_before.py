"""Data-parallel classifier with in-step gradient accumulation (shard_map over 'data')."""
import functools

import jax

jax.config.update("jax_num_cpu_devices", 4)

import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, PartitionSpec as P

try:
    from jax import shard_map
    smap = functools.partial(shard_map, check_vma=False)
except ImportError:
    from jax.experimental.shard_map import shard_map
    smap = functools.partial(shard_map, check_rep=False)

CFG = dict(din=10, width=16, classes=7, micro=3, per_device=6, lr=0.1, wd=1e-4, steps=2)
mesh = Mesh(np.array(jax.devices()), ("data",))


def init(key, c):
    k = jax.random.split(key, 3)
    return {
        "in": {"w": jax.random.normal(k[0], (c["din"], c["width"])) * 0.3, "b": jnp.zeros(c["width"])},
        "mid": {"w": jax.random.normal(k[1], (c["width"], c["width"])) * 0.2, "b": jnp.zeros(c["width"])},
        "out": {"w": jax.random.normal(k[2], (c["width"], c["classes"])) * 0.2, "b": jnp.zeros(c["classes"])},
    }


def apply(params, x):
    h = jax.nn.silu(x @ params["in"]["w"] + params["in"]["b"])
    h = h + jax.nn.silu(h @ params["mid"]["w"] + params["mid"]["b"])
    return h @ params["out"]["w"] + params["out"]["b"]


def loss_fn(params, x, y):
    logits = apply(params, x)
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()
    acc = (logits.argmax(-1) == y).mean()
    return loss, acc


tx = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.add_decayed_weights(CFG["wd"]),
    optax.sgd(CFG["lr"], momentum=0.9, nesterov=True),
)


def accumulate(params, x, y):
    n = CFG["micro"]
    xs = x.reshape(n, -1, x.shape[-1])
    ys = y.reshape(n, -1)

    def body(carry, batch):
        grads, loss, acc = carry
        (l, a), g = jax.value_and_grad(loss_fn, has_aux=True)(params, *batch)
        return (jax.tree.map(jnp.add, grads, g), loss + l, acc + a), None

    zero = jax.tree.map(jnp.zeros_like, params)
    (grads, loss, acc), _ = jax.lax.scan(body, (zero, 0.0, 0.0), (xs, ys))
    return jax.tree.map(lambda g: g / n, grads), loss / n, acc / n


def local_step(params, opt_state, x, y):
    grads, loss, acc = accumulate(params, x, y)
    grads = jax.lax.pmean(grads, "data")
    metrics = jax.lax.pmean({"loss": loss, "acc": acc}, "data")
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, metrics


train_step = jax.jit(
    smap(local_step, mesh=mesh, in_specs=(P(), P(), P("data"), P("data")), out_specs=(P(), P(), P()))
)


def batches(c):
    rng = np.random.default_rng(0)
    n = c["per_device"] * mesh.devices.size
    for _ in range(c["steps"]):
        yield rng.normal(size=(n, c["din"])).astype("float32"), rng.integers(0, c["classes"], n).astype("int32")


def main():
    params = init(jax.random.PRNGKey(0), CFG)
    opt_state = tx.init(params)
    for x, y in batches(CFG):
        params, opt_state, m = train_step(params, opt_state, x, y)
        print({k: float(v) for k, v in m.items()})


if __name__ == "__main__":
    main()
