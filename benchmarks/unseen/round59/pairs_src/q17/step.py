"""BYOL-style representation learning on tabular views; online and target networks."""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

DTYPE = jnp.bfloat16
TAU = 0.99


class Encoder(nn.Module):
    width: int = 24
    out: int = 8

    @nn.compact
    def __call__(self, x):
        h = nn.Dense(self.width, dtype=DTYPE)(x)
        h = nn.gelu(h)
        return nn.Dense(self.out, dtype=DTYPE)(h)


class Predictor(nn.Module):
    @nn.compact
    def __call__(self, z):
        h = nn.relu(nn.Dense(16, dtype=DTYPE)(z))
        return nn.Dense(z.shape[-1], dtype=DTYPE)(h)


encoder, predictor = Encoder(), Predictor()
tx = optax.adam(optax.cosine_decay_schedule(1e-3, 100))


def unit(x):
    x = x.astype(jnp.float32)
    return x / jnp.sqrt(jnp.sum(x * x, -1, keepdims=True) + 1e-6)


def augment(key, x):
    noise, mask = jax.random.split(key)
    keep = jax.random.bernoulli(mask, 0.8, x.shape)
    return jnp.where(keep, x + 0.1 * jax.random.normal(noise, x.shape), 0.0)


def loss_fn(params, target, a, b):
    loss = 0.0
    for u, v in ((a, b), (b, a)):
        p = unit(predictor.apply(params["predictor"], encoder.apply(params["encoder"], u)))
        z = unit(encoder.apply(target, v))
        loss += jnp.mean(2 - 2 * jnp.sum(p * jax.lax.stop_gradient(z), -1))
    return loss


@jax.jit
def train_step(state, x, key):
    ka, kb = jax.random.split(key)
    loss, grads = jax.value_and_grad(loss_fn)(state["params"], state["target"], augment(ka, x), augment(kb, x))
    updates, opt = tx.update(grads, state["opt"], state["params"])
    params = optax.apply_updates(state["params"], updates)
    target = jax.tree.map(lambda t, p: TAU * t + (1 - TAU) * p, state["target"], params["encoder"])
    return {"params": params, "target": target, "opt": opt}, loss


def create(key):
    ke, kp = jax.random.split(key)
    params = {"encoder": encoder.init(ke, jnp.zeros((1, 16))), "predictor": predictor.init(kp, jnp.zeros((1, 8)))}
    target = jax.tree.map(lambda p: p.astype(DTYPE), params["encoder"])
    return {"params": params, "target": target, "opt": tx.init(params)}


def main(dump=None):
    rng = np.random.default_rng(0)
    state = create(jax.random.key(0))
    for step in range(5):
        args = (state, rng.normal(size=(32, 16)).astype(np.float32), jax.random.key(step))
        if dump:
            dump(step, train_step, args)
        state, loss = train_step(*args)
        print(f"step {step} loss {loss:.4f}")
    print("compiled", train_step._cache_size())


if __name__ == "__main__":
    main()
