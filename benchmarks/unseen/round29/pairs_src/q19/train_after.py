import os

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

PER_DEVICE = 4
FEATURES = 12
TARGETS = 3


class GatedResidual(nn.Module):
    width: int
    rate: float

    @nn.compact
    def __call__(self, x, train):
        h = nn.LayerNorm()(x)
        h = nn.Dense(2 * self.width)(h)
        a, b = jnp.split(h, 2, axis=-1)
        h = a * nn.sigmoid(b)
        h = nn.Dropout(self.rate, deterministic=not train)(h)
        return x + nn.Dense(self.width)(h)


class TabularNet(nn.Module):
    width: int = 16
    blocks: int = 2
    rate: float = 0.2

    @nn.compact
    def __call__(self, x, train=True):
        x = nn.Dense(self.width, name="stem")(x)
        for i in range(self.blocks):
            x = GatedResidual(self.width, self.rate, name=f"block{i}")(x, train)
        return nn.Dense(TARGETS, name="out")(nn.gelu(x))


model = TabularNet()
tx = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.lion(optax.exponential_decay(1e-3, 10, 0.8), b1=0.9, b2=0.98, weight_decay=1e-2),
)
mesh = Mesh(np.array(jax.devices()), ("data",))


def quantile_loss(pred, y):
    taus = jnp.array([0.1, 0.5, 0.9])
    diff = y[:, None] - pred
    return jnp.maximum(taus * diff, (taus - 1.0) * diff).mean()


def replica_step(params, opt_state, key, step, x, y):
    key = jax.random.fold_in(key, step)

    def compute_loss(p):
        pred = model.apply({"params": p}, x, train=True, rngs={"dropout": key})
        return quantile_loss(pred, y)

    loss, grads = jax.value_and_grad(compute_loss)(params)
    grads = jax.lax.psum(grads, "data")
    loss = jax.lax.pmean(loss, "data")
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


@partial(jax.jit, donate_argnums=(0, 1))
def train_step(params, opt_state, key, step, x, y):
    return jax.shard_map(
        replica_step,
        mesh=mesh,
        in_specs=(P(), P(), P(), P(), P("data"), P("data")),
        out_specs=(P(), P(), P()),
        check_vma=False,
    )(params, opt_state, key, step, x, y)


def sample(rng, n):
    x = rng.normal(size=(n, FEATURES)).astype(np.float32)
    y = x[:, 0] - 0.5 * x[:, 1] ** 2 + 0.3 * rng.normal(size=n)
    return x, y.astype(np.float32)


def main():
    key = jax.random.PRNGKey(0)
    params = model.init(key, jnp.zeros((1, FEATURES)), train=False)["params"]
    opt_state = tx.init(params)
    replicated = NamedSharding(mesh, P())
    params, opt_state, key = jax.device_put((params, opt_state, key), replicated)
    shard = NamedSharding(mesh, P("data"))
    rng = np.random.default_rng(0)
    for step in range(4):
        x, y = jax.device_put(sample(rng, PER_DEVICE * mesh.size), shard)
        params, opt_state, loss = train_step(params, opt_state, key, jnp.int32(step), x, y)
        print(f"step {step} loss {float(loss):.4f}")


if __name__ == "__main__":
    main()
