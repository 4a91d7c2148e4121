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


def nb_logpmf(x, mu, theta, eps=1e-8):
    log_tm = jnp.log(theta + mu + eps)
    return (theta * (jnp.log(theta + eps) - log_tm)
            + x * (jnp.log(mu + eps) - log_tm)
            + gammaln(x + theta) - gammaln(theta))


def elbo_one(params, x, b, eps):
    onehot = jax.nn.one_hot(b, BATCHES)
    h = jnp.concatenate([jnp.log1p(x), onehot])
    h = jax.nn.elu(h @ params["enc_w"] + params["enc_b"])
    mu = h @ params["mu_w"] + params["mu_b"]
    logvar = jnp.clip(h @ params["lv_w"] + params["lv_b"], -8.0, 8.0)
    z = mu + jnp.exp(0.5 * logvar) * eps
    d = jax.nn.elu(jnp.concatenate([z, onehot]) @ params["dec_w"] + params["dec_b"])
    rho = jax.nn.softmax(d @ params["rho_w"] + params["rho_b"])
    rate = rho * jnp.sum(x)
    rec = jnp.sum(nb_logpmf(x, rate, jnp.exp(params["log_theta"])))
    kl = -0.5 * jnp.sum(1.0 + logvar - mu ** 2 - jnp.exp(logvar))
    return rec, kl


def loss_fn(params, x, b, key, kl_weight):
    eps = jax.random.normal(key, (x.shape[0], LATENT))
    rec, kl = jax.vmap(elbo_one, in_axes=(None, 0, 0, 0))(params, x, b, eps)
    loss = jnp.mean(kl_weight * kl - rec)
    return loss, {"rec": jnp.mean(rec), "kl": jnp.mean(kl)}


tx = optax.adamw(LR, b1=0.9, b2=0.99, weight_decay=WD)


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
