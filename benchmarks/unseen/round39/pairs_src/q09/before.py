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
    return jnp.asarray((i + j + parity) % 2, jnp.float32)


class Coupling(nn.Module):
    parity: int

    @nn.compact
    def __call__(self, x):
        # x: (L, L), one configuration
        mask = checkerboard(self.parity)
        frozen = x * mask
        h = nn.leaky_relu(nn.Dense(10)(frozen.reshape(-1)))
        st = nn.Dense(2 * L * L)(h)
        s = jnp.tanh(st[: L * L]).reshape(L, L) * (1 - mask)
        t = st[L * L:].reshape(L, L) * (1 - mask)
        active = x * (1 - mask)
        return frozen + active * jnp.exp(s) + t, jnp.sum(s)


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
    kinetic = 0.0
    for axis in (0, 1):
        kinetic = kinetic + phi * (2 * phi - jnp.roll(phi, 1, axis) - jnp.roll(phi, -1, axis))
    return jnp.sum(kinetic + M2 * phi ** 2 + LAMBDA * phi ** 4)


def prior_log_prob(z):
    return jnp.sum(-0.5 * z ** 2 - 0.5 * jnp.log(2 * jnp.pi))


def make_step(flow, tx):
    def per_sample(params, z):
        x, log_det = flow.apply(params, z)
        log_q = prior_log_prob(z) - log_det
        return log_q, -action(x)

    def loss_fn(params, z):
        log_q, log_p = jax.vmap(per_sample, in_axes=(None, 0))(params, z)
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
    params = flow.init(jax.random.PRNGKey(0), jnp.zeros((L, L)))
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
