import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))


def named(*axes):
    return NamedSharding(mesh, P(*axes))


PARAM_SHARDING = {
    "emb": named(),
    "up": named(None, "model"),
    "down": named("model", None),
    "out": named(),
}


def init(rng, vocab=24, dim=8, hidden=16):
    shapes = {"emb": (vocab, dim), "up": (dim, hidden),
              "down": (hidden, dim), "out": (dim, vocab)}
    return {
        k: jax.device_put(
            (rng.normal(size=s) * 0.2).astype(np.float32), PARAM_SHARDING[k])
        for k, s in shapes.items()
    }


def forward(params, tokens):
    h = params["emb"][tokens]
    a = jax.nn.silu(h @ params["up"])
    h = h + a @ params["down"]
    return h @ params["out"]


@jax.jit
def train_step(params, tokens):
    def loss_fn(p):
        logp = jax.nn.log_softmax(forward(p, tokens[:, :-1]))
        return -jnp.mean(jnp.take_along_axis(logp, tokens[:, 1:, None], -1))

    loss, grads = jax.value_and_grad(loss_fn)(params)
    return {k: v - 0.1 * grads[k] for k, v in params.items()}, loss


def main():
    rng = np.random.default_rng(6)
    params = init(rng)
    for _ in range(4):
        tokens = rng.integers(0, 24, size=(4, 9)).astype(np.int32)
        tokens = jax.device_put(tokens, named("data"))
        params, loss = train_step(params, tokens)
        print("loss %.4f" % loss)


if __name__ == "__main__":
    main()
