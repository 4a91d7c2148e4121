"""Small mixture-density RNN, flax."""
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import flax.linen as nn

K = 3
HIDDEN = 16


class MinimalGRU(nn.Module):
    features: int

    @nn.compact
    def __call__(self, h, x):
        z = nn.sigmoid(nn.Dense(self.features, name="gate_x")(x) + nn.Dense(self.features, use_bias=False, name="gate_h")(h))
        c = nn.tanh(nn.Dense(self.features, name="cand_x")(x) + nn.Dense(self.features, use_bias=False, name="cand_h")(z * h))
        h = (1.0 - z) * h + z * c
        return h, h


class MDN(nn.Module):
    hidden: int
    k: int

    @nn.compact
    def __call__(self, x):
        rnn = nn.scan(
            MinimalGRU, variable_broadcast="params", split_rngs={"params": False}, in_axes=1, out_axes=1
        )(self.hidden, name="rnn")
        _, hs = rnn(jnp.zeros((x.shape[0], self.hidden)), x)
        out = nn.Dense(3 * self.k, name="head")(hs)
        return jnp.split(out, 3, axis=-1)


def mdn_nll(params, model, x, y):
    logit, mean, log_s = model.apply({"params": params}, x)
    log_s = jnp.clip(log_s, -4.0, 2.0)
    log_pi = jax.nn.log_softmax(logit, axis=-1)
    zed = (y[..., None] - mean) / jnp.exp(log_s)
    comp = log_pi - 0.5 * zed**2 - log_s - 0.5 * math.log(2 * math.pi)
    return -jnp.mean(jax.scipy.special.logsumexp(comp, axis=-1))


def make_batch(rng):
    t = rng.uniform(0, 3, size=(8, 1)) + np.arange(10)[None] * 0.3
    s = np.sin(t) + 0.1 * rng.normal(size=t.shape)
    return jnp.asarray(s[:, :-1, None], jnp.float32), jnp.asarray(s[:, 1:], jnp.float32)


def main():
    model = MDN(HIDDEN, K)
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-3))
    rng = np.random.default_rng(0)
    x, y = make_batch(rng)
    params = model.init(jax.random.PRNGKey(0), x)["params"]
    opt_state = tx.init(params)

    @jax.jit
    def train_step(params, opt_state, x, y):
        loss, grads = jax.value_and_grad(mdn_nll)(params, model, x, y)
        updates, opt_state = tx.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        return params, opt_state, loss

    for i in range(3):
        x, y = make_batch(rng)
        params, opt_state, loss = train_step(params, opt_state, x, y)
        print(i, "%.6f" % float(loss))


if __name__ == "__main__":
    main()
