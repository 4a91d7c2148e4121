"""Data parallel flax conv net over a 1-d mesh of host devices."""
import functools
import os

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct
from jax.sharding import Mesh, PartitionSpec as P

AXIS = "data"
CLASSES = 5


class ConvBN(nn.Module):
    features: int
    stride: int = 1

    @nn.compact
    def __call__(self, x, train):
        x = nn.Conv(self.features, (3, 3), strides=self.stride, use_bias=False)(x)
        x = nn.BatchNorm(use_running_average=not train, momentum=0.9, epsilon=1e-5)(x)
        return nn.relu(x)


class Net(nn.Module):
    widths: tuple = (8, 12, 16)

    @nn.compact
    def __call__(self, x, train=True):
        for i, w in enumerate(self.widths):
            x = ConvBN(w, stride=2 if i else 1)(x, train)
        return nn.Dense(CLASSES)(x.mean(axis=(1, 2)))


@struct.dataclass
class State:
    step: jax.Array
    params: dict
    batch_stats: dict
    opt_state: tuple


def make_optimizer():
    return optax.chain(
        optax.add_decayed_weights(1e-4, mask=lambda p: jax.tree.map(lambda a: a.ndim > 1, p)),
        optax.sgd(0.1, momentum=0.9),
    )


def create_state(rng, sample):
    variables = Net().init(rng, sample, train=False)
    opt_state = make_optimizer().init(variables["params"])
    return State(jnp.zeros((), jnp.int32), variables["params"], variables["batch_stats"], opt_state)


def train_step(state, images, labels):
    def loss_fn(params):
        logits, mutated = Net().apply(
            {"params": params, "batch_stats": state.batch_stats},
            images, train=True, mutable=["batch_stats"])
        onehot = jax.nn.one_hot(labels, CLASSES)
        return optax.softmax_cross_entropy(logits, onehot).mean(), (logits, mutated)

    (loss, (logits, mutated)), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    grads = jax.lax.pmean(grads, AXIS)
    updates, opt_state = make_optimizer().update(grads, state.opt_state, state.params)
    metrics = {
        "loss": jax.lax.pmean(loss, AXIS),
        "acc": jax.lax.pmean((logits.argmax(-1) == labels).mean(), AXIS),
    }
    state = state.replace(
        step=state.step + 1,
        params=optax.apply_updates(state.params, updates),
        batch_stats=jax.lax.pmean(mutated["batch_stats"], AXIS),
        opt_state=opt_state,
    )
    return state, metrics


def build_step(mesh):
    return jax.jit(jax.shard_map(
        train_step, mesh=mesh,
        in_specs=(P(), P(AXIS), P(AXIS)), out_specs=(P(), P()), check_vma=False),
        donate_argnums=0)


def batches(n, per_step=16, size=12, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        y = rng.integers(0, CLASSES, per_step).astype(np.int32)
        x = rng.normal(size=(per_step, size, size, 3)).astype(np.float32)
        yield x + y[:, None, None, None] / CLASSES, y


def main():
    mesh = Mesh(np.array(jax.devices()[:4]), (AXIS,))
    data = [(jnp.asarray(x, jnp.float32), jnp.asarray(y)) for x, y in batches(3)]
    state = create_state(jax.random.key(0), data[0][0][:1])
    step = build_step(mesh)
    for x, y in data:
        state, metrics = step(state, x, y)
        print(int(state.step), {k: round(float(v), 4) for k, v in metrics.items()})


if __name__ == "__main__":
    main()
