import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))


def init(rng, d_in, hidden, d_out):
    return {
        "w1": jnp.asarray(rng.normal(size=(d_in, hidden)) * 0.3, jnp.float32),
        "w2": jnp.asarray(rng.normal(size=(hidden, d_out)) * 0.3, jnp.float32),
    }


SPECS = {"w1": P(None, "model"), "w2": P("model", None)}


def local_step(params, x, y):
    def predict(p, x):
        h = jnp.tanh(x @ p["w1"])
        return lax.psum(h @ p["w2"], "model")

    def loss_fn(p):
        return jnp.mean((predict(p, x) - y) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    norm = jnp.sqrt(lax.psum(sum(jnp.sum(g ** 2) for g in grads.values()), ("data",)))
    scale = jnp.minimum(1.0, 1.0 / norm)
    grads = {k: lax.pmean(g, "data") for k, g in grads.items()}
    params = {k: v - 0.1 * scale * grads[k] for k, v in params.items()}
    return params, lax.pmean(loss, "data")


train_step = jax.jit(
    jax.shard_map(
        local_step,
        mesh=mesh,
        in_specs=(SPECS, P("data"), P("data")),
        out_specs=(SPECS, P()),
        check_vma=False,
    )
)


def main():
    rng = np.random.default_rng(1)
    params = init(rng, 6, 8, 2)
    for _ in range(4):
        x = rng.normal(size=(8, 6)).astype(np.float32)
        y = np.stack([x.sum(1), x.max(1)], 1)
        params, loss = train_step(params, x, y)
        print("loss %.4f" % loss)


if __name__ == "__main__":
    main()
