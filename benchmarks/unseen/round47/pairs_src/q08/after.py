"""Conditional normalising flow (affine couplings) for wind-power forecast errors. JAX, flax, optax.

The flow is written for one sample; the batch comes by vmap.
"""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import jax.scipy.stats as jstats
import optax

DIM, COND, HID, LAYERS, BATCH = 6, 4, 16, 3, 10
CLAMP = 2.0


class Coupling(nn.Module):
    """scale and shift for one half, from the other half and the condition"""

    @nn.compact
    def __call__(self, kept, cond):
        h = nn.silu(nn.Dense(HID, name="hidden")(jnp.concatenate([kept, cond])))
        s, t = nn.Dense(DIM, name="out")(h).reshape(2, DIM // 2)
        return CLAMP * jnp.tanh(s / CLAMP), t


class Flow(nn.Module):
    @nn.compact
    def __call__(self, x, cond):
        shift = self.param("shift", nn.initializers.zeros, (DIM,))
        scale = self.param("scale", nn.initializers.zeros, (DIM,))
        x = (x - shift) / jnp.exp(scale)
        halves = [x[: DIM // 2], x[DIM // 2 :]]
        logdets = [-scale.sum()]
        for i in range(LAYERS):
            kept, moved = i % 2, 1 - i % 2
            s, t = Coupling(name=f"coupling{i}")(halves[kept], cond)
            halves[moved] = halves[moved] * jnp.exp(s) + t
            logdets.append(s.sum())
        return jnp.concatenate(halves), sum(logdets)


flow = Flow()
tx = optax.chain(optax.clip_by_global_norm(5.0), optax.adamw(1e-3, weight_decay=1e-4))


def log_prob(params, x, cond):
    z, logdet = flow.apply(params, x, cond)
    return jstats.norm.logpdf(z).sum() + logdet


def loss_fn(params, x, cond, weight):
    logp = jax.vmap(log_prob, in_axes=(None, 0, 0))(params, x, cond)
    return -jnp.average(logp, weights=weight)


def step(params, opt_state, x, cond, weight):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, cond, weight)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def init():
    params = flow.init(jax.random.key(0), jnp.zeros((DIM,)), jnp.zeros((COND,)))
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
