"""DDPM-ish denoiser on 1-D signals; plain jax, optax optimizer."""
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

T = 50
LEN, HID, EMB = 20, 24, 8
BETAS = np.linspace(1e-4, 0.05, T).astype(np.float32)
ALPHA_BAR = jnp.asarray(np.cumprod(1.0 - BETAS))


class Linear(NamedTuple):
    w: jax.Array
    b: jax.Array

    @classmethod
    def create(cls, key, n_in, n_out):
        return cls(jax.random.normal(key, (n_in, n_out)) / jnp.sqrt(n_in), jnp.zeros(n_out))

    def __call__(self, x):
        return jnp.dot(x, self.w) + self.b


class Denoiser(NamedTuple):
    output: Linear
    block: Linear
    stem: Linear
    t_proj: Linear

    @classmethod
    def create(cls, key):
        ks = jax.random.split(key, 4)
        return cls(
            stem=Linear.create(ks[0], LEN, HID),
            t_proj=Linear.create(ks[1], EMB, HID),
            block=Linear.create(ks[2], HID, HID),
            output=Linear.create(ks[3], HID, LEN),
        )

    def __call__(self, x, t):
        e = self.t_proj(sinusoid(t))
        h = self.stem(x)
        h = jnp.tanh(h + e)
        return self.output(h + jnp.tanh(self.block(h)))


def sinusoid(t):
    half = EMB // 2
    freqs = jnp.exp(-jnp.log(1000.0) * jnp.arange(half) / half)
    ang = jnp.expand_dims(t.astype(jnp.float32), 1) * jnp.expand_dims(freqs, 0)
    return jnp.concatenate([jnp.sin(ang), jnp.cos(ang)], axis=1)


def q_sample(x0, noise, t):
    ab = jnp.expand_dims(ALPHA_BAR[t], -1)
    return jnp.sqrt(ab) * x0 + jnp.sqrt(1.0 - ab) * noise


optimizer = optax.chain(
    optax.scale_by_adam(b1=0.9, b2=0.98, eps=1e-7),
    optax.add_decayed_weights(0.02),
    optax.scale_by_learning_rate(3e-3),
)


@jax.jit
def step(batch, opt_state, model):
    x0, noise, t = batch

    def objective(m):
        err = m(q_sample(x0, noise, t), t) - noise
        return jnp.square(err).mean(), jnp.abs(err).mean()

    (loss, mae), grads = jax.value_and_grad(objective, has_aux=True)(model)
    metrics = {"abs_err": mae, "loss": loss}
    updates, opt_state = optimizer.update(grads, opt_state, model)
    return metrics, optax.apply_updates(model, updates), opt_state


def main():
    rng = np.random.default_rng(1)
    model = Denoiser.create(jax.random.PRNGKey(1))
    opt_state = optimizer.init(model)
    for i in range(3):
        x0 = rng.normal(size=(6, LEN)).astype(np.float32)
        t = rng.integers(0, T, 6).astype(np.int32)
        noise = rng.normal(size=(6, LEN)).astype(np.float32)
        metrics, model, opt_state = step((x0, noise, t), opt_state, model)
        print(i, float(metrics["loss"]), float(metrics["abs_err"]))


if __name__ == "__main__":
    main()
