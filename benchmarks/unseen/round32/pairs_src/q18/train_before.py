"""ECG beat classifier, data parallel with shard_map: 1-D patch mixer, flax + optax."""
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, PartitionSpec as P

LEADS, LENGTH, PATCH, CLASSES = 3, 48, 8, 5
GLOBAL_BATCH = 16
MAX_NORM = 1.0


class MixerBlock(nn.Module):
    tokens: int = 10
    channels: int = 24

    @nn.compact
    def __call__(self, x):
        y = nn.LayerNorm()(x).swapaxes(1, 2)
        y = nn.Dense(y.shape[-1])(nn.gelu(nn.Dense(self.tokens)(y)))
        x = x + y.swapaxes(1, 2)
        y = nn.LayerNorm()(x)
        return x + nn.Dense(x.shape[-1])(nn.gelu(nn.Dense(self.channels)(y)))


class BeatNet(nn.Module):
    width: int = 12
    depth: int = 1

    @nn.compact
    def __call__(self, x):
        b = x.shape[0]
        x = x.reshape(b, LENGTH // PATCH, PATCH * LEADS)
        x = nn.Dense(self.width)(x)
        for _ in range(self.depth):
            x = MixerBlock()(x)
        return nn.Dense(CLASSES)(nn.LayerNorm()(x).mean(1))


model = BeatNet()
schedule = optax.warmup_cosine_decay_schedule(0.0, 5e-2, 5, 100)
tx = optax.chain(
    optax.clip_by_global_norm(MAX_NORM),
    optax.sgd(schedule, momentum=0.9, nesterov=True),
)


def focal_loss(params, x, y, gamma=2.0):
    logp = jax.nn.log_softmax(model.apply({"params": params}, x))
    lp = jnp.take_along_axis(logp, y[:, None], axis=1)[:, 0]
    return -(((1 - jnp.exp(lp)) ** gamma) * lp).mean()


def make_step(mesh):
    @partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(P(), P(), P("data"), P("data")),
        out_specs=(P(), P(), P()),
        check_vma=False,
    )
    def step(params, opt_state, x, y):
        loss, grads = jax.value_and_grad(focal_loss)(params, x, y)
        loss, grads = jax.lax.pmean((loss, grads), "data")
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    return jax.jit(step)


def batches(seed):
    rng = np.random.default_rng(seed)
    t = np.linspace(-1, 1, LENGTH)
    while True:
        y = rng.integers(0, CLASSES, GLOBAL_BATCH)
        centre = (y - 2)[:, None, None] * 0.2
        x = np.exp(-(((t[:, None] - centre) / 0.1) ** 2)) * np.array([3.0, -2.0, 1.0])
        x = x + 0.2 * rng.standard_normal((GLOBAL_BATCH, LENGTH, LEADS))
        x[y == 4] *= 8.0
        yield jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.int32)


def setup():
    mesh = Mesh(np.array(jax.devices()), ("data",))
    params = model.init(jax.random.PRNGKey(0), jnp.zeros((1, LENGTH, LEADS)))["params"]
    return make_step(mesh), params, tx.init(params)


def main(steps=6):
    step, params, opt_state = setup()
    for i, (x, y) in zip(range(steps), batches(1)):
        params, opt_state, loss = step(params, opt_state, x, y)
        print(i, float(loss))


if __name__ == "__main__":
    main()
