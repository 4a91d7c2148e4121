"""Data-parallel training of a small residual MLP with shard_map."""
import functools
import os

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, PartitionSpec as P

try:
    from jax import shard_map
except ImportError:
    from jax.experimental.shard_map import shard_map

jax.config.update("jax_num_cpu_devices", 2)

FEATURES, WIDTH, DEPTH, CLASSES = 12, 16, 2, 5
DROP = 0.2
BATCH = 16


def init(key):
    keys = jax.random.split(key, 2 * DEPTH + 2)
    blocks = []
    for i in range(DEPTH):
        blocks.append({
            "scale": jnp.ones((WIDTH,)),
            "w1": jax.random.normal(keys[2 * i], (WIDTH, 2 * WIDTH)) * 0.2,
            "w2": jax.random.normal(keys[2 * i + 1], (2 * WIDTH, WIDTH)) * 0.2,
        })
    return {
        "stem": jax.random.normal(keys[-2], (FEATURES, WIDTH)) * 0.3,
        "blocks": blocks,
        "head": {"w": jax.random.normal(keys[-1], (WIDTH, CLASSES)) * 0.1, "b": jnp.zeros((CLASSES,))},
    }


def rms_norm(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def dropout(key, x, rate):
    keep = jax.random.bernoulli(key, 1.0 - rate, x.shape)
    return jnp.where(keep, x / (1.0 - rate), 0.0)


def apply(params, x, key):
    h = x @ params["stem"]
    for i, blk in enumerate(params["blocks"]):
        y = jax.nn.gelu(rms_norm(h, blk["scale"]) @ blk["w1"])
        y = dropout(jax.random.fold_in(key, i), y, DROP)
        h = h + y @ blk["w2"]
    return h @ params["head"]["w"] + params["head"]["b"]


def loss_fn(params, x, y, key):
    logits = apply(params, x, key)
    ce = optax.softmax_cross_entropy_with_integer_labels(logits, y)
    return ce.mean(), (logits.argmax(-1) == y).mean()


tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
mesh = Mesh(np.array(jax.devices()[:2]), ("data",))


def local_step(params, opt_state, x, y, key):
    (loss, acc), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, x, y, key)
    grads = jax.lax.psum(grads, "data")
    loss = jax.lax.pmean(loss, "data")
    acc = jax.lax.pmean(acc, "data")
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss, "acc": acc}


train_step = jax.jit(
    functools.partial(
        shard_map,
        mesh=mesh,
        in_specs=(P(), P(), P("data"), P("data"), P()),
        out_specs=(P(), P(), P()),
        check_vma=False,
    )(local_step)
)


def batches(n, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        x = rng.normal(size=(BATCH, FEATURES)).astype(np.float32)
        yield x, rng.integers(0, CLASSES, size=(BATCH,)).astype(np.int32)


def main():
    key = jax.random.PRNGKey(0)
    params = init(key)
    opt_state = tx.init(params)
    for i, (x, y) in enumerate(batches(3)):
        step_key = jax.random.fold_in(key, i)
        if i == 0 and os.environ.get("DUMP_HLO"):
            lowered = train_step.lower(params, opt_state, x, y, step_key)
            with open(os.environ["DUMP_HLO"], "w") as f:
                f.write(lowered.compiler_ir(dialect="hlo").as_hlo_text())
        params, opt_state, metrics = train_step(params, opt_state, x, y, step_key)
        print(i, {k: float(v) for k, v in metrics.items()})


if __name__ == "__main__":
    main()
