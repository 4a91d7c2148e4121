"""Mixture-of-experts forecaster for district heating: shared encoder, top-2 routed experts, quantile loss, Lion."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

HIST, DIM, EXPERTS, TOP, AHEAD = 12, 8, 4, 2, 3
QUANTILES = (0.1, 0.5, 0.9)


class Router(nn.Module):
    @nn.compact
    def __call__(self, h):
        logits = nn.Dense(EXPERTS, use_bias=False)(h)
        probs = jax.nn.softmax(logits, axis=-1)
        top, idx = jax.lax.top_k(probs, TOP)
        choice = jax.nn.one_hot(idx, EXPERTS)
        gate = jnp.einsum("bk,bke->be", top, choice)
        # share of the picks times share of the mass, 1 when all is even
        load = choice.sum(1).mean(0) / TOP
        balance = EXPERTS * jnp.sum(load * probs.mean(0))
        spread = jnp.mean(jax.nn.logsumexp(logits, axis=-1) ** 2)
        return gate, balance, spread


class Experts(nn.Module):
    @nn.compact
    def __call__(self, h, gate):
        w_in = self.param("w_in", nn.initializers.lecun_normal(batch_axis=0), (EXPERTS, DIM, 2 * DIM))
        w_out = self.param("w_out", nn.initializers.lecun_normal(batch_axis=0), (EXPERTS, 2 * DIM, DIM))
        z = nn.gelu(jnp.einsum("bd,edf->bef", h, w_in))
        return jnp.einsum("bef,efd,be->bd", z, w_out, gate)


class Forecaster(nn.Module):
    @nn.compact
    def __call__(self, x):
        h = nn.silu(nn.Dense(DIM)(x))
        for _ in range(2):
            n = nn.RMSNorm()(h)
            gate, balance, spread = Router()(n)
            h = h + Experts()(n, gate)
            self.sow("losses", "balance", balance)
            self.sow("losses", "spread", spread)
        out = nn.Dense(AHEAD * len(QUANTILES))(h)
        return out.reshape(-1, AHEAD, len(QUANTILES))


model = Forecaster()
tx = optax.lion(optax.cosine_decay_schedule(1e-3, 500), b1=0.9, b2=0.98, weight_decay=1e-2)


def loss_fn(params, x, y):
    pred, kept = model.apply({"params": params}, x, mutable=["losses"])
    q = jnp.asarray(QUANTILES)
    err = y[..., None] - pred
    pinball = jnp.maximum(q * err, (q - 1.0) * err).mean()
    aux = {k: sum(kept["losses"][k]) for k in ("balance", "spread")}
    return pinball + 1e-2 * aux["balance"] + 1e-3 * aux["spread"], (pinball, aux)


@jax.jit
def step(params, opt_state, x, y):
    (loss, more), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, x, y)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss, more


def batch(rng, n=10):
    return (jnp.asarray(rng.normal(size=(n, HIST)), jnp.float32), jnp.asarray(rng.normal(size=(n, AHEAD)), jnp.float32))


if __name__ == "__main__":
    rng = np.random.default_rng(61)
    params = model.init(jax.random.PRNGKey(60), jnp.zeros((1, HIST)))["params"]
    opt_state = tx.init(params)
    low = step.lower(params, opt_state, *batch(rng))
    open(sys.argv[1], "w").write(low.compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(3):
        params, opt_state, loss, (pinball, aux) = step(params, opt_state, *batch(rng))
        print(i, "%.5f %.5f" % (loss, pinball), {k: round(float(v), 5) for k, v in aux.items()})
