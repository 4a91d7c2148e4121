"""Regression MLP trained on a 2x2 device mesh (data x model) with named shardings."""
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

FEATURES, HIDDEN, OUT, BATCH, LAYERS = 24, 64, 8, 32, 3

mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("data", "model"))


def on(*axes):
    return NamedSharding(mesh, P(*axes))


def constrain(x, *axes):
    return jax.lax.with_sharding_constraint(x, on(*axes))


SPECS = {"inp": on(None, "model"), "up": on(None, "model"), "down": on("model", None),
         "scale": on(), "head": on("model", None)}


def init(key):
    keys = jax.random.split(key, 2 * LAYERS + 2)
    normal = lambda k, a, b: jax.random.normal(k, (a, b)) * a**-0.5
    params = {"inp": normal(keys[0], FEATURES, HIDDEN), "head": normal(keys[1], HIDDEN, OUT)}
    for i in range(LAYERS):
        params[f"up_{i}"] = normal(keys[2 * i + 2], HIDDEN, 2 * HIDDEN)
        params[f"down_{i}"] = normal(keys[2 * i + 3], 2 * HIDDEN, HIDDEN)
        params[f"scale_{i}"] = jnp.ones(HIDDEN)
    return {k: jax.device_put(v, SPECS[k.split("_")[0]]) for k, v in params.items()}


def layer_norm(x, scale):
    mean = x.mean(axis=-1, keepdims=True)
    var = jnp.mean((x - mean) ** 2, axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(var + 1e-5) * scale


def predict(params, x):
    x = constrain(x @ params["inp"], "data", None)
    for i in range(LAYERS):
        h = layer_norm(x, params[f"scale_{i}"])
        h = constrain(jax.nn.relu(h @ params[f"up_{i}"]), "data", "model")
        x = x + constrain(h @ params[f"down_{i}"], "data", None)
    return x @ params["head"]


def loss_fn(params, x, y):
    return jnp.mean(jnp.sum((predict(params, x) - y) ** 2, axis=-1))


@jax.jit
def train_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    return {k: params[k] - lr * grads[k] for k in params}, loss


def batches(n, seed=3):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(FEATURES, OUT)).astype(np.float32)
    for _ in range(n):
        x = rng.normal(size=(BATCH, FEATURES)).astype(np.float32)
        yield jax.device_put(x, on("data", None)), jax.device_put(np.tanh(x @ w), on("data", None))


def main():
    params = init(jax.random.PRNGKey(0))
    for step, (x, y) in enumerate(batches(3)):
        params, loss = train_step(params, x, y, 0.01 / (1 + step))
        print(f"step {step} loss {float(loss):.4f}")


if __name__ == "__main__":
    main()
