"""Normalizing flow for 2-D lattice phi^4 theory: affine couplings on a checkerboard, reverse KL."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

L, M2, LAMBDA, LAYERS = 4, -1.0, 2.0, 3


def checkerboard(parity):
    i, j = np.indices((L, L))
    return jnp.asarray((i + j + parity) % 2 == 1)


class Coupling(nn.Module):
    parity: int

    @nn.compact
    def __call__(self, x):
        # x: (batch, L, L)
        frozen = checkerboard(self.parity)
        h = nn.leaky_relu(nn.Dense(10)(jnp.where(frozen, x, 0.0).reshape(x.shape[0], -1)))
        s, t = jnp.split(nn.Dense(2 * L * L)(h), 2, axis=-1)
        s = jnp.tanh(s).reshape(x.shape)
        t = t.reshape(x.shape)
        y = jnp.where(frozen, x, x * jnp.exp(s) + t)
        return y, jnp.sum(jnp.where(frozen, 0.0, s), axis=(1, 2))


class Flow(nn.Module):
    @nn.compact
    def __call__(self, z):
        log_det = 0.0
        x = z
        for k in range(LAYERS):
            x, ld = Coupling(parity=k % 2)(x)
            log_det = log_det + ld
        return x, log_det


def action(phi):
    # summed by parts: on a torus every link counts once
    links = sum((jnp.roll(phi, -1, axis) - phi) ** 2 for axis in (1, 2))
    sq = phi * phi
    return jnp.sum(links + sq * (M2 + LAMBDA * sq), axis=(1, 2))


def prior_log_prob(z):
    return jnp.sum(-0.5 * z ** 2 - 0.5 * jnp.log(2 * jnp.pi), axis=(1, 2))


def make_step(flow, tx):
    def loss_fn(params, z):
        x, log_det = flow.apply(params, z)
        log_q = prior_log_prob(z) - log_det
        log_p = -action(x)
        log_w = log_p - log_q
        ess = jnp.exp(2 * jax.nn.logsumexp(log_w) - jax.nn.logsumexp(2 * log_w)) / z.shape[0]
        return jnp.mean(log_q - log_p), ess

    def step(params, opt_state, z):
        (loss, ess), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, z)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss, ess

    return step


def main(out):
    flow = Flow()
    params = flow.init(jax.random.PRNGKey(0), jnp.zeros((1, L, L)))
    tx = optax.adam(1e-3)
    opt_state = tx.init(params)
    rng = np.random.default_rng(4)
    z = jnp.asarray(rng.normal(size=(8, L, L)), jnp.float32)
    jitted = jax.jit(make_step(flow, tx))
    low = jitted.lower(params, opt_state, z)
    open(out, "w").write(low.compiler_ir("hlo").as_hlo_module().to_string())
    for _ in range(6):
        z = jnp.asarray(rng.normal(size=(8, L, L)), jnp.float32)
        params, opt_state, loss, ess = jitted(params, opt_state, z)
        print(float(loss), float(ess))
    if len(sys.argv) > 2:
        np.savez(sys.argv[2], *[np.asarray(p) for p in jax.tree_util.tree_leaves(params)])


if __name__ == "__main__":
    main(sys.argv[1])
