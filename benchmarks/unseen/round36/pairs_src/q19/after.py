"""Denoising diffusion over the torsion angles of a peptide (flax, optax), one step."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct

BATCH, RES, ANGLES, DIM, AA = 4, 10, 3, 16, 20


def wrap(x):
    return jnp.mod(x + jnp.pi, 2.0 * jnp.pi) - jnp.pi


def sigma(t, lo=0.01 * np.pi, hi=np.pi):
    return lo * (hi / lo) ** t


class TimeEmbed(nn.Module):
    dim: int

    @nn.compact
    def __call__(self, t):
        freq = jnp.exp(jnp.linspace(0.0, 4.0, self.dim // 2))
        a = t[:, None] * freq
        return nn.Dense(self.dim)(jnp.concatenate([jnp.sin(a), jnp.cos(a)], axis=-1))


class MixBlock(nn.Module):
    dim: int
    drop: float

    @nn.compact
    def __call__(self, h, temb, train):
        y = h + temb[:, None]
        y = nn.Conv(self.dim, (3,), padding="SAME")(y)
        y = nn.Dropout(self.drop, deterministic=not train)(nn.silu(y))
        return h + nn.Dense(self.dim)(y)


class TorsionNet(nn.Module):
    dim: int = DIM

    @nn.compact
    def __call__(self, angles, seq, t, train):
        feats = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)
        h = nn.Dense(self.dim)(feats) + nn.Embed(AA, self.dim)(seq)
        temb = TimeEmbed(self.dim)(t)
        h = MixBlock(self.dim, 0.1)(h, temb, train)
        return nn.Dense(ANGLES)(h)


class State(struct.PyTreeNode):
    params: dict
    ema: dict
    opt: tuple
    rng: jax.Array


net = TorsionNet()
tx = optax.lion(3e-4, weight_decay=1e-2)


def loss_fn(params, angles, seq, mask, t, noise, rng_drop):
    s = sigma(t)[:, None, None]
    noisy = wrap(angles + s * noise)
    pred = net.apply({"params": params}, noisy, seq, t, True, rngs={"dropout": rng_drop})
    err = jnp.square(pred - noise) * mask[..., None]
    return err.sum() / (ANGLES * mask.sum())


def train_step(state, angles, seq, mask):
    rng, sub = jax.random.split(state.rng)
    t = jax.random.uniform(sub, (BATCH,))
    noise = jax.random.normal(sub, angles.shape)
    rng, sub = jax.random.split(rng)
    loss, grads = jax.value_and_grad(loss_fn)(state.params, angles, seq, mask, t, noise, sub)
    updates, opt = tx.update(grads, state.opt, state.params)
    params = optax.apply_updates(state.params, updates)
    ema = optax.incremental_update(params, state.ema, 0.01)
    return State(params=params, ema=ema, opt=opt, rng=rng), loss


def setup():
    r = np.random.RandomState(19)
    angles = jnp.asarray(r.uniform(-np.pi, np.pi, (BATCH, RES, ANGLES)), jnp.float32)
    seq = jnp.asarray(r.randint(0, AA, (BATCH, RES)), jnp.int32)
    mask = jnp.asarray(np.arange(RES)[None] < r.randint(5, RES + 1, (BATCH, 1)), jnp.float32)
    params = net.init(jax.random.PRNGKey(19), angles, seq, jnp.zeros(BATCH), False)["params"]
    state = State(params=params, ema=params, opt=tx.init(params), rng=jax.random.PRNGKey(91))
    return state, angles, seq, mask


if __name__ == "__main__":
    args = setup()
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w") as f:
            f.write(jax.jit(train_step).lower(*args).compiler_ir("hlo").as_hlo_module().to_string())
    state, rest = args[0], args[1:]
    for it in range(4):
        state, loss = jax.jit(train_step)(state, *rest)
        print(it, float(loss))
