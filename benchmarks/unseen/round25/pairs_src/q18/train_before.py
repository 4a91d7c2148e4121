"""Data-parallel MLP-Mixer on random textures, four host devices."""
from functools import partial

import jax

jax.config.update("jax_num_cpu_devices", 4)

import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

try:
    from jax import shard_map
except ImportError:
    from jax.experimental.shard_map import shard_map

TOKENS, CH, CLASSES = 9, 16, 4
BLOCKS = 2
LR, BETA, MAX_NORM = 0.05, 0.9, 1.0


def dense_init(key, n_in, n_out):
    return {"w": jax.random.normal(key, (n_in, n_out)) / np.sqrt(n_in), "b": jnp.zeros(n_out)}


def init_params(key):
    keys = iter(jax.random.split(key, 4 * BLOCKS + 2))
    params = {"stem": dense_init(next(keys), 12, CH)}
    for i in range(BLOCKS):
        params[f"block{i}"] = {
            "tok1": dense_init(next(keys), TOKENS, 12),
            "tok2": dense_init(next(keys), 12, TOKENS),
            "ch1": dense_init(next(keys), CH, 32),
            "ch2": dense_init(next(keys), 32, CH),
            "ln1": jnp.ones(CH),
            "ln2": jnp.ones(CH),
        }
    params["head"] = dense_init(next(keys), CH, CLASSES)
    return params


def dense(p, x):
    return x @ p["w"] + p["b"]


def layer_norm(g, x):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return g * (x - mu) / jnp.sqrt(var + 1e-6)


def apply(params, x):
    x = dense(params["stem"], x)
    for i in range(BLOCKS):
        p = params[f"block{i}"]
        y = layer_norm(p["ln1"], x).swapaxes(1, 2)
        x = x + dense(p["tok2"], jax.nn.relu(dense(p["tok1"], y))).swapaxes(1, 2)
        y = layer_norm(p["ln2"], x)
        x = x + dense(p["ch2"], jax.nn.relu(dense(p["ch1"], y)))
    return dense(params["head"], x.mean(1))


def loss_fn(params, x, y):
    logp = jax.nn.log_softmax(apply(params, x))
    return -jnp.take_along_axis(logp, y[:, None], 1).mean()


def global_norm(tree):
    return jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(tree)))


def clip(tree, max_norm):
    n = global_norm(tree)
    scale = jnp.minimum(1.0, max_norm / (n + 1e-6))
    return jax.tree.map(lambda g: g * scale, tree)


mesh = Mesh(np.array(jax.devices()), ("data",))


@jax.jit
@partial(
    shard_map,
    mesh=mesh,
    in_specs=(P(), P(), P("data"), P("data")),
    out_specs=(P(), P(), P()),
    check_vma=False,
)
def train_step(params, velocity, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    grads = jax.lax.pmean(grads, "data")
    grads = clip(grads, MAX_NORM)
    velocity = jax.tree.map(lambda v, g: BETA * v + g, velocity, grads)
    params = jax.tree.map(lambda p, v: p - LR * v, params, velocity)
    return params, velocity, jax.lax.pmean(loss, "data")


def batch(rng, n=16):
    y = rng.integers(0, CLASSES, n)
    x = rng.normal(size=(n, TOKENS, 12)).astype(np.float32)
    x[np.arange(n), y] += 1.5
    sh = NamedSharding(mesh, P("data"))
    return jax.device_put(x, sh), jax.device_put(y.astype(np.int32), sh)


def main():
    rep = NamedSharding(mesh, P())
    params = jax.device_put(init_params(jax.random.key(0)), rep)
    velocity = jax.device_put(jax.tree.map(jnp.zeros_like, params), rep)
    rng = np.random.default_rng(0)
    for step in range(4):
        params, velocity, loss = train_step(params, velocity, *batch(rng))
        print(step, float(loss))


if __name__ == "__main__":
    main()
