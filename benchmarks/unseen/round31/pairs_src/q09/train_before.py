"""Contrastive pre-training of a spectrum encoder against composition vectors, data parallel over four devices."""
import os
import sys

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from jax.sharding import Mesh, PartitionSpec as P

PEAKS, ELEMENTS, DIM, LOCAL, STEPS = 48, 10, 16, 6, 5


class EncoderBlock(nn.Module):
    heads: int = 2

    @nn.compact
    def __call__(self, x):
        h = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(num_heads=self.heads)(h, h)
        h = nn.Dense(2 * x.shape[-1])(nn.LayerNorm()(x))
        return x + nn.Dense(x.shape[-1])(nn.gelu(h))


class SpectrumEncoder(nn.Module):
    @nn.compact
    def __call__(self, s):
        x = nn.Conv(DIM, (8,), strides=(8,), padding="VALID")(s[..., None])
        x = x + self.param("pos", nn.initializers.normal(0.02), (1, PEAKS // 8, DIM))
        x = EncoderBlock()(x)
        return nn.Dense(DIM, use_bias=False)(nn.LayerNorm()(x).mean(axis=1))


class CompositionEncoder(nn.Module):
    @nn.compact
    def __call__(self, c):
        h = nn.gelu(nn.Dense(2 * DIM)(c))
        h = nn.gelu(nn.Dense(2 * DIM)(nn.LayerNorm()(h)))
        return nn.Dense(DIM, use_bias=False)(h)


class Pair(nn.Module):
    @nn.compact
    def __call__(self, s, c):
        zs, zc = SpectrumEncoder()(s), CompositionEncoder()(c)
        scale = self.param("log_scale", nn.initializers.constant(np.log(1 / 0.07)), ())
        unit = lambda z: z * jax.lax.rsqrt(jnp.sum(z * z, -1, keepdims=True) + 1e-8)
        return unit(zs), unit(zc), jnp.exp(jnp.minimum(scale, np.log(100.0)))


model = Pair()


def no_decay_on_vectors(params):
    return jax.tree_util.tree_map(lambda p: p.ndim > 1, params)


tx = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.scale_by_adam(b2=0.98, eps=1e-6),
    optax.add_decayed_weights(0.2, mask=no_decay_on_vectors),
    optax.scale(-1e-3),
)


def loss_fn(params, s, c):
    zs, zc, scale = model.apply(params, s, c)
    all_s = jax.lax.all_gather(zs, "data", tiled=True)
    all_c = jax.lax.all_gather(zc, "data", tiled=True)
    labels = jax.lax.axis_index("data") * zs.shape[0] + jnp.arange(zs.shape[0])
    ce = optax.softmax_cross_entropy_with_integer_labels
    loss = 0.5 * (ce(scale * zs @ all_c.T, labels) + ce(scale * zc @ all_s.T, labels))
    return loss.mean()


def local_step(params, opt_state, s, c):
    loss, grads = jax.value_and_grad(loss_fn)(params, s, c)
    grads = jax.lax.pmean(grads, "data")
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, jax.lax.pmean(loss, "data")


mesh = Mesh(np.array(jax.devices()), ("data",))
step = jax.jit(jax.shard_map(local_step, mesh=mesh, in_specs=(P(), P(), P("data"), P("data")),
                             out_specs=(P(), P(), P()), check_vma=False))


def batches(n, seed=0):
    rng = np.random.default_rng(seed)
    lines = np.abs(rng.normal(size=(ELEMENTS, PEAKS))) * (rng.uniform(size=(ELEMENTS, PEAKS)) < 0.15)
    for _ in range(n):
        c = rng.dirichlet(np.full(ELEMENTS, 0.3), size=4 * LOCAL)
        s = c @ lines + 0.02 * rng.normal(size=(4 * LOCAL, PEAKS))
        yield jnp.asarray(s, jnp.float32), jnp.asarray(c, jnp.float32)


def main(dump=None):
    data = list(batches(STEPS))
    params = model.init(jax.random.PRNGKey(0), *data[0])
    opt_state = tx.init(params)
    if dump:
        with open(dump, "w") as f:
            f.write(step.lower(params, opt_state, *data[0]).as_text(dialect="hlo"))
    for i, (s, c) in enumerate(data):
        params, opt_state, loss = step(params, opt_state, s, c)
        print(i, f"{float(loss):.5f}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
