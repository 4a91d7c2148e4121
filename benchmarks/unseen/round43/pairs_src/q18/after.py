"""Negative-binomial VAE on single-cell counts, one training step (JAX)."""
import os
import sys

import jax
import jax.numpy as jnp
import optax
from jax.scipy.special import gammaln

CELLS, GENES, HID, LATENT, BATCHES = 8, 20, 12, 4, 3
LR, WD = 2e-3, 1e-4


def init_params(key):
    k = jax.random.split(key, 6)
    n = jax.random.normal
    return {
        "enc_w": n(k[0], (GENES + BATCHES, HID)) * 0.2, "enc_b": jnp.zeros(HID),
        "mu_w": n(k[1], (HID, LATENT)) * 0.2, "mu_b": jnp.zeros(LATENT),
        "lv_w": n(k[2], (HID, LATENT)) * 0.2, "lv_b": jnp.zeros(LATENT),
        "dec_w": n(k[3], (LATENT + BATCHES, HID)) * 0.2, "dec_b": jnp.zeros(HID),
        "rho_w": n(k[4], (HID, GENES)) * 0.2, "rho_b": jnp.zeros(GENES),
        "log_theta": jnp.zeros(GENES),
    }


def affine(params, name, x):
    return jnp.einsum("nf,fo->no", x, params[name + "_w"]) + params[name + "_b"]


def encode(params, x, batch_id):
    h = jax.nn.elu(affine(params, "enc", jnp.concatenate([jnp.log1p(x), batch_id], axis=-1)))
    return affine(params, "mu", h), jnp.clip(affine(params, "lv", h), -8.0, 8.0)


def decode(params, z, batch_id, library):
    h = jax.nn.elu(affine(params, "dec", jnp.concatenate([z, batch_id], axis=-1)))
    return library * jax.nn.softmax(affine(params, "rho", h), axis=-1)


def nb_log_prob(x, mu, log_theta, eps=1e-8):
    theta = jnp.exp(log_theta)
    log_tm = jnp.log(theta + mu + eps)
    succ = theta * (jnp.log(theta + eps) - log_tm)
    fail = x * (jnp.log(mu + eps) - log_tm)
    return gammaln(x + theta) - gammaln(theta) + succ + fail


def loss_fn(params, x, b, key, kl_weight):
    batch_id = jax.nn.one_hot(b, BATCHES)
    mu, logvar = encode(params, x, batch_id)
    z = mu + jnp.sqrt(jnp.exp(logvar)) * jax.random.normal(key, mu.shape)
    rate = decode(params, z, batch_id, x.sum(-1, keepdims=True))
    rec = nb_log_prob(x, rate, params["log_theta"]).sum(-1)
    kl = 0.5 * (mu ** 2 + jnp.exp(logvar) - logvar - 1.0).sum(-1)
    rec, kl = rec.mean(), kl.mean()
    return kl_weight * kl - rec, {"rec": rec, "kl": kl}


tx = optax.chain(
    optax.scale_by_adam(b1=0.9, b2=0.99),
    optax.add_decayed_weights(WD),
    optax.scale(-LR),
)


def train_step(params, opt_state, x, b, key, kl_weight):
    (loss, aux), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, x, b, key, kl_weight)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, loss, aux


def main(path):
    params = init_params(jax.random.PRNGKey(18))
    state = tx.init(params)
    step = jax.jit(train_step)
    key = jax.random.PRNGKey(0)
    for i in range(int(os.environ.get("STEPS", 2))):
        kx, kb, ke = jax.random.split(jax.random.fold_in(key, i), 3)
        x = jax.random.poisson(kx, 3.0, (CELLS, GENES)).astype(jnp.float32)
        b = jax.random.randint(kb, (CELLS,), 0, BATCHES)
        args = (params, state, x, b, ke, jnp.float32(0.1 * (i + 1)))
        if i == 0:
            with open(path, "w") as f:
                f.write(step.lower(*args).compiler_ir("hlo").as_hlo_module().to_string())
        params, state, loss, aux = step(*args)
        print(i, float(loss), {k: float(v) for k, v in aux.items()})
    print("checksum", sum(float(jnp.sum(jnp.abs(p))) for p in jax.tree.leaves(params)))


if __name__ == "__main__":
    main(sys.argv[1])
