"""Beta-VAE on binary masks (flax)."""
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

SIDE = 8
LATENT = 4
HIDDEN = 24
BETA = 0.5
LR = 2e-3


class Encoder(nn.Module):

    @nn.compact
    def __call__(self, x):
        x = nn.Conv(8, (3, 3), strides=(2, 2), name="conv")(x)
        x = nn.gelu(x)
        x = x.reshape(x.shape[0], -1)
        x = nn.LayerNorm(epsilon=1e-6, name="ln")(nn.Dense(HIDDEN, name="fc")(x))
        x = nn.gelu(x)
        mu = nn.Dense(LATENT, name="mu")(x)
        logvar = nn.Dense(LATENT, name="logvar")(x)
        return mu, logvar


class Decoder(nn.Module):

    @nn.compact
    def __call__(self, z):
        h = nn.gelu(nn.Dense(HIDDEN, name="fc1")(z))
        h = nn.gelu(nn.Dense(HIDDEN, name="fc2")(h))
        return nn.Dense(SIDE * SIDE, name="pixels")(h).reshape(-1, SIDE, SIDE)


class VAE(nn.Module):

    def setup(self):
        self.encoder = Encoder()
        self.decoder = Decoder()

    def __call__(self, x, key):
        mu, logvar = self.encoder(x[..., None])
        eps = jax.random.normal(key, mu.shape)
        z = mu + jnp.exp(0.5 * logvar) * eps
        return self.decoder(z), mu, logvar


model = VAE()
tx = optax.adam(LR)


def loss_fn(params, x, key):
    logits, mu, logvar = model.apply({"params": params}, x, key)
    rec = optax.sigmoid_binary_cross_entropy(logits, x).sum(axis=(1, 2))
    kl = -0.5 * jnp.sum(1 + logvar - jnp.square(mu) - jnp.exp(logvar), axis=-1)
    loss = jnp.mean(rec + BETA * kl)
    return loss, (rec.mean(), kl.mean())


@jax.jit
def train_step(params, opt_state, x, key):
    (loss, (rec, kl)), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, x, key)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss, "rec": rec, "kl": kl}


def blobs(rng, n=8):
    yy, xx = np.mgrid[:SIDE, :SIDE]
    c = rng.uniform(1, SIDE - 2, (n, 2, 1, 1))
    return ((yy - c[:, 0]) ** 2 + (xx - c[:, 1]) ** 2 < 5).astype(np.float32)


def main():
    rng = np.random.default_rng(0)
    key = jax.random.PRNGKey(0)
    params = model.init(key, blobs(rng), key)["params"]
    opt_state = tx.init(params)
    for step in range(4):
        key, sub = jax.random.split(key)
        params, opt_state, m = train_step(params, opt_state, blobs(rng), sub)
        print(step, {k: round(float(v), 3) for k, v in m.items()})


if __name__ == "__main__":
    main()
