"""Conditional normalising flow (affine couplings) for wind-power forecast errors. JAX, flax, optax."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

DIM, COND, HID, LAYERS, BATCH = 6, 4, 16, 3, 10
CLAMP = 2.0


class Coupling(nn.Module):
    flip: bool

    @nn.compact
    def __call__(self, x, cond):
        a, b = jnp.split(x, 2, axis=-1)
        if self.flip:
            a, b = b, a
        h = jnp.concatenate([a, cond], axis=-1)
        h = nn.silu(nn.Dense(HID, name="hidden")(h))
        s, t = jnp.split(nn.Dense(DIM, name="out")(h), 2, axis=-1)
        s = CLAMP * jnp.tanh(s / CLAMP)
        b = b * jnp.exp(s) + t
        if self.flip:
            a, b = b, a
        return jnp.concatenate([a, b], axis=-1), s.sum(axis=-1)


class Flow(nn.Module):
    @nn.compact
    def __call__(self, x, cond):
        logdet = jnp.zeros(x.shape[:-1])
        shift = self.param("shift", nn.initializers.zeros, (DIM,))
        scale = self.param("scale", nn.initializers.zeros, (DIM,))
        x = (x - shift) * jnp.exp(-scale)
        logdet = logdet - scale.sum()
        for i in range(LAYERS):
            x, ld = Coupling(flip=i % 2 == 1, name=f"coupling{i}")(x, cond)
            logdet = logdet + ld
        return x, logdet


flow = Flow()
tx = optax.chain(optax.clip_by_global_norm(5.0), optax.adamw(1e-3, weight_decay=1e-4))


def loss_fn(params, x, cond, weight):
    z, logdet = flow.apply(params, x, cond)
    logp = -0.5 * jnp.sum(z**2 + jnp.log(2 * jnp.pi), axis=-1) + logdet
    return -jnp.sum(weight * logp) / jnp.sum(weight)


def step(params, opt_state, x, cond, weight):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, cond, weight)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def init():
    params = flow.init(jax.random.key(0), jnp.zeros((1, DIM)), jnp.zeros((1, COND)))
    return params, tx.init(params)


def make_batch(i):
    k = jax.random.split(jax.random.key(100 + i), 3)
    return (
        1.5 * jax.random.normal(k[0], (BATCH, DIM)) + 0.3,
        jax.random.normal(k[1], (BATCH, COND)),
        jax.random.uniform(k[2], (BATCH,), minval=0.5, maxval=1.5),
    )


def main(path):
    params, opt_state = init()
    lowered = jax.jit(step).lower(params, opt_state, *make_batch(0))
    with open(path, "w") as f:
        f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    run = jax.jit(step)
    for i in range(5):
        params, opt_state, loss = run(params, opt_state, *make_batch(i))
        print(i, float(loss))
    return params


if __name__ == "__main__":
    main(sys.argv[1])
