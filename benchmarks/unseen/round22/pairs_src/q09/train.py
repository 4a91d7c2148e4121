import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import train_state


class Encoder(nn.Module):
    latents: int

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(24, name="fc1")(x))
        mean = nn.Dense(self.latents, name="fc_mean")(x)
        logvar = nn.Dense(self.latents, name="fc_logvar")(x)
        return mean, logvar


class Decoder(nn.Module):
    out: int

    @nn.compact
    def __call__(self, z):
        z = nn.relu(nn.Dense(24, name="fc1")(z))
        return nn.Dense(self.out, name="fc2")(z)


class VAE(nn.Module):
    latents: int = 4
    out: int = 36

    def setup(self):
        self.encoder = Encoder(self.latents)
        self.decoder = Decoder(self.out)

    def __call__(self, x, rng):
        mean, logvar = self.encoder(x)
        eps = jax.random.normal(rng, logvar.shape)
        return self.decoder(mean + eps * jnp.exp(0.5 * logvar)), mean, logvar


def bce(logits, labels):
    logp = nn.log_sigmoid(logits)
    return -jnp.sum(labels * logp + (1.0 - labels) * jnp.log(-jnp.expm1(logp)), axis=-1)


def kl(mean, logvar):
    return -0.5 * jnp.sum(1 + logvar - jnp.square(mean) - jnp.exp(logvar), axis=-1)


@functools.partial(jax.jit, static_argnames=("beta",))
def train_step(state, batch, rng, beta):
    def loss_fn(params):
        recon, mean, logvar = state.apply_fn({"params": params}, batch, rng)
        rec = bce(recon, batch).mean()
        div = kl(mean, logvar).mean()
        return rec + beta * div, (rec, div)

    (loss, (rec, div)), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    return state.apply_gradients(grads=grads), {"loss": loss, "bce": rec, "kl": div}


def warmup_beta(epoch, warm=4, top=1.0):
    return top * min(1.0, (epoch + 1) / warm)


def iterate(data, batch_size, rng):
    order = rng.permutation(len(data))
    for i in range(0, len(data), batch_size):
        yield data[order[i:i + batch_size]]


def main(epochs=2, batch_size=16):
    rng = np.random.RandomState(0)
    data = (rng.rand(42, 36) > 0.6).astype(np.float32)
    key = jax.random.key(0)
    model = VAE()
    init_key, key = jax.random.split(key)
    params = model.init(init_key, data[:1], init_key)["params"]
    state = train_state.TrainState.create(
        apply_fn=model.apply,
        params=params,
        tx=optax.adam(optax.cosine_decay_schedule(1e-3, 200)),
    )
    for epoch in range(epochs):
        beta = warmup_beta(epoch)
        for batch in iterate(data, batch_size, rng):
            key, sub = jax.random.split(key)
            state, metrics = train_step(state, batch, sub, beta=beta)
        print(epoch, {k: float(v) for k, v in metrics.items()})


if __name__ == "__main__":
    main()
