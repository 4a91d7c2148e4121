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
    # model_out: [B, K], [B, 2K], [B, 2K], [B, K];  target: [B, 2]
    logit_pi, mean, log_std, raw_rho = model_out
    batch = target.shape[0]
    mean = mean.reshape(batch, K, 2)
    log_std = log_std.reshape(batch, K, 2)
    rho = 0.95 * jnp.tanh(raw_rho)
    z = (target[:, None, :] - mean) * jnp.exp(-log_std)
    zx, zy = z[:, :, 0], z[:, :, 1]
    one = 1.0 - rho * rho
    quad = (zx * zx - 2.0 * rho * zx * zy + zy * zy) / one
    log_norm = -jnp.log(2.0 * jnp.pi) - jnp.sum(log_std, axis=-1) - 0.5 * jnp.log(one)
    log_prob = jax.nn.log_softmax(logit_pi, axis=-1) + log_norm - 0.5 * quad
    return -jax.scipy.special.logsumexp(log_prob, axis=-1)


model = MDN()
tx = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.adamw(optax.linear_schedule(1e-3, 1e-4, 100), weight_decay=1e-4))


def loss_fn(params, x, target, weight):
    nll = mdn_nll(model.apply(params, x), target)
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
