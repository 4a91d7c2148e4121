"""Affine coupling flow over detector hits, trained with optax, averaged weights kept (JAX)."""
import os

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

DIM, HID, LAYERS, BATCH = 4, 8, 2, 12
EMA_DECAY = 0.99
OUT = {"before.py": "a.hlo", "after.py": "b.hlo"}[os.path.basename(__file__)]


class Coupling(nn.Module):
    flip: bool

    @nn.compact
    def __call__(self, x, cond):
        a, b = jnp.split(x, 2, axis=-1)
        if self.flip:
            a, b = b, a
        h = nn.swish(nn.Dense(HID)(jnp.concatenate([a, cond], axis=-1)))
        st = nn.Dense(DIM)(h)
        s, t = jnp.split(st, 2, axis=-1)
        s = 1.5 * jnp.tanh(s / 1.5)
        b = b * jnp.exp(s) + t
        out = [b, a] if self.flip else [a, b]
        return jnp.concatenate(out, axis=-1), s.sum(-1)


class Flow(nn.Module):
    @nn.compact
    def __call__(self, x, cond):
        logdet = jnp.zeros(x.shape[0])
        for i in range(LAYERS):
            scale = self.param(f"log_scale_{i}", nn.initializers.zeros, (DIM,))
            shift = self.param(f"shift_{i}", nn.initializers.zeros, (DIM,))
            x = (x + shift) * jnp.exp(scale)
            x, ld = Coupling(flip=bool(i % 2))(x, cond)
            logdet = logdet + ld + scale.sum()
        return x, logdet


flow = Flow()


def make_optimizer():
    schedule = optax.cosine_decay_schedule(3e-3, 1000, alpha=0.05)
    return optax.chain(
        optax.scale_by_adam(b2=0.99),
        optax.clip_by_global_norm(1.0),
        optax.scale_by_schedule(schedule),
        optax.scale(-1.0),
    )


tx = make_optimizer()


def nll(params, x, cond, weight, key):
    x = x + 1e-2 * jax.random.normal(key, x.shape)
    z, logdet = flow.apply(params, x, cond)
    logp = -0.5 * (z ** 2 + jnp.log(2 * jnp.pi)).sum(-1) + logdet
    return -(weight * logp).sum() / weight.sum()


def train_step(params, ema, opt_state, x, cond, weight, key):
    loss, grads = jax.value_and_grad(nll)(params, x, cond, weight, key)
    updates, opt_state = tx.update(grads, opt_state, params)
    new_params = optax.apply_updates(params, updates)
    ema = jax.tree.map(lambda e, p: EMA_DECAY * e + (1 - EMA_DECAY) * p, ema, params)
    return new_params, ema, opt_state, loss


def main():
    key = jax.random.key(0)
    x = jax.random.normal(jax.random.key(1), (BATCH, DIM)) * 0.7 + 0.2
    cond = jax.random.normal(jax.random.key(2), (BATCH, 2))
    weight = jax.random.uniform(jax.random.key(3), (BATCH,))
    params = flow.init(key, x, cond)
    opt_state = tx.init(params)
    ema = params
    step = jax.jit(train_step)
    lowered = step.lower(params, ema, opt_state, x, cond, weight, key)
    text = lowered.compiler_ir("hlo").as_hlo_module().to_string()
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), OUT), "w") as f:
        f.write(text)
    for i in range(4):
        params, ema, opt_state, loss = step(
            params, ema, opt_state, x, cond, weight, jax.random.fold_in(key, i))
        total = sum(jnp.abs(e).sum() for e in jax.tree.leaves(ema))
        print(i, f"{loss:.6f} {total:.6f}")


if __name__ == "__main__":
    main()
