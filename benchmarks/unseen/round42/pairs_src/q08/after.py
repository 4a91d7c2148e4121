"""Mixture density network for ship-trajectory displacement (bivariate Gaussians), flax + optax."""
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

K, BATCH, WINDOW, FEAT = 3, 6, 5, 4


class TrackEncoder(nn.Module):
    hidden: int = 12

    @nn.compact
    def __call__(self, x):
        # x: [..., WINDOW, FEAT]
        h = nn.Dense(self.hidden)(x)
        h = nn.gelu(nn.LayerNorm()(h))
        score = nn.Dense(1)(jnp.tanh(nn.Dense(self.hidden)(h)))
        attn = jax.nn.softmax(score, axis=-2)
        return jnp.sum(attn * h, axis=-2)


class MDN(nn.Module):
    @nn.compact
    def __call__(self, x):
        h = TrackEncoder()(x)
        out = nn.Dense(6 * K)(h)
        return jnp.split(out, [K, 3 * K, 5 * K], axis=-1)


def mdn_nll(model_out, target):
    """Negative log likelihood of one target [2] under one mixture of K components."""
    logit_pi, mean, log_std, raw_rho = model_out

    def component(mu, ls, raw):
        rho = 0.95 * jnp.tanh(raw)
        zx, zy = (target - mu) * jnp.exp(-ls)
        one = 1.0 - rho * rho
        quad = (zx * zx - 2.0 * rho * zx * zy + zy * zy) / one
        log_norm = -jnp.log(2.0 * jnp.pi) - jnp.sum(ls) - 0.5 * jnp.log(one)
        return log_norm - 0.5 * quad

    log_comp = jax.vmap(component)(mean.reshape(K, 2), log_std.reshape(K, 2), raw_rho)
    return -jax.scipy.special.logsumexp(jax.nn.log_softmax(logit_pi) + log_comp)


model = MDN()
tx = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.adamw(optax.linear_schedule(1e-3, 1e-4, 100), weight_decay=1e-4))


def loss_fn(params, x, target, weight):
    def one(xi, ti):
        return mdn_nll(model.apply(params, xi), ti)

    nll = jax.vmap(one)(x, target)
    return jnp.sum(weight * nll) / jnp.sum(weight)


def step(params, opt_state, x, target, weight):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, target, weight)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def main():
    rng = np.random.default_rng(0)

    def batch():
        return (rng.normal(size=(BATCH, WINDOW, FEAT)).astype(np.float32),
                rng.normal(size=(BATCH, 2)).astype(np.float32),
                rng.uniform(0.2, 1.0, size=(BATCH,)).astype(np.float32))

    params = model.init(jax.random.PRNGKey(1), jnp.zeros((1, WINDOW, FEAT)))
    opt_state = tx.init(params)
    fn = jax.jit(step)
    text = fn.lower(params, opt_state, *batch()).compiler_ir("hlo").as_hlo_module().to_string()
    open(sys.argv[1], "w").write(text)
    for i in range(5):
        params, opt_state, loss = fn(params, opt_state, *batch())
        total = sum(float(jnp.sum(p.astype(jnp.float32) ** 2)) for p in jax.tree_util.tree_leaves(params))
        print(i, "%.7f" % float(loss), "%.6f" % total)


main()
