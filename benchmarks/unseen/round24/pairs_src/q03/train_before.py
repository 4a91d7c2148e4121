"""Data-parallel speech-command classifier: mesh of replicas x shards, batch split over both."""
import functools

import jax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 4)

import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

BATCH_AXES = ("replica", "shard")
N_CLASSES = 6


def dense_init(key, n_in, n_out):
    w = jax.random.normal(key, (n_in, n_out)) * jnp.sqrt(2.0 / n_in)
    return {"w": w, "b": jnp.zeros(n_out)}


def init_params(key, n_mels=10, width=16):
    k = jax.random.split(key, 5)
    return {
        "conv1": jax.random.normal(k[0], (3, n_mels, width)) * 0.2,
        "conv2": jax.random.normal(k[1], (3, width, width)) * 0.2,
        "scale": jnp.ones(width),
        "offset": jnp.zeros(width),
        "gate": dense_init(k[2], width, width),
        "fc": dense_init(k[3], width, width),
        "out": dense_init(k[4], width, N_CLASSES),
    }


def conv(x, w, stride):
    return lax.conv_general_dilated(x, w, (stride,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))


def sync_batch_norm(x, scale, offset, eps=1e-5):
    mean = lax.pmean(x.mean((0, 1)), BATCH_AXES)
    sq = lax.pmean(jnp.square(x).mean((0, 1)), BATCH_AXES)
    return (x - mean) * lax.rsqrt(sq - jnp.square(mean) + eps) * scale + offset


def apply(params, x):
    h = jax.nn.relu(conv(x, params["conv1"], 2))
    h = sync_batch_norm(conv(h, params["conv2"], 1), params["scale"], params["offset"])
    h = jax.nn.relu(h)
    g = jax.nn.sigmoid(h.mean(1) @ params["gate"]["w"] + params["gate"]["b"])
    h = (h * g[:, None]).max(1)
    h = jnp.tanh(h @ params["fc"]["w"] + params["fc"]["b"])
    return h @ params["out"]["w"] + params["out"]["b"]


def loss_fn(params, x, y):
    logits = apply(params, x)
    soft = optax.smooth_labels(jax.nn.one_hot(y, N_CLASSES), 0.1)
    return optax.softmax_cross_entropy(logits, soft).mean(), logits


tx = optax.chain(optax.clip_by_global_norm(1.0), optax.lion(1e-3, weight_decay=1e-2))


def train_step(params, opt_state, x, y):
    (loss, logits), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, x, y)
    grads = lax.pmean(grads, BATCH_AXES)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    acc = (logits.argmax(-1) == y).mean()
    metrics = lax.pmean({"loss": loss, "acc": acc}, BATCH_AXES)
    return params, opt_state, metrics


def make_step(mesh):
    return jax.jit(
        jax.shard_map(
            train_step,
            mesh=mesh,
            in_specs=(P(), P(), P(BATCH_AXES), P(BATCH_AXES)),
            out_specs=(P(), P(), P()),
            check_vma=False,
        )
    )


def batch(rng):
    y = rng.integers(0, N_CLASSES, 16)
    x = rng.standard_normal((16, 24, 10)).astype(np.float32) + y[:, None, None] * 0.2
    return x, y.astype(np.int32)


def main(steps=3):
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), BATCH_AXES)
    params = init_params(jax.random.key(0))
    state = tx.init(params)
    step = make_step(mesh)
    rng = np.random.default_rng(0)
    for i in range(steps):
        x, y = batch(rng)
        params, state, m = step(params, state, x, y)
        print(i, {k: round(float(v), 4) for k, v in m.items()})


if __name__ == "__main__":
    main()
