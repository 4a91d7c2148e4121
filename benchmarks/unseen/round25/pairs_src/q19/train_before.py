import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

SET, FEAT, HID, B = 7, 5, 16, 6


class AttentionPool(nn.Module):
    hidden: int

    @nn.compact
    def __call__(self, x, mask):
        # x: (set, feat)
        h = nn.Dense(self.hidden, name="encode")(x)
        h = jnp.tanh(h)
        score = nn.Dense(1, use_bias=False, name="score")(h)[:, 0]
        score = jnp.where(mask, score, -1e9)
        attn = jax.nn.softmax(score)
        return attn @ h


class SetRegressor(nn.Module):
    hidden: int

    @nn.compact
    def __call__(self, x, mask):
        z = AttentionPool(self.hidden, name="pool")(x, mask)
        z = nn.LayerNorm(epsilon=1e-6, use_fast_variance=False, name="norm")(z)
        z = nn.relu(nn.Dense(self.hidden, name="mlp")(z))
        return nn.Dense(1, name="readout")(z)[0]


model = SetRegressor(HID)
tx = optax.adamw(1e-2, b1=0.9, b2=0.99, eps=1e-8, weight_decay=1e-3)


def example_loss(params, x, mask, y):
    r = model.apply({"params": params}, x, mask) - y
    a = jnp.abs(r)
    return jnp.where(a <= 1.0, 0.5 * r * r, a - 0.5)


def batch_loss(params, x, mask, y):
    return jax.vmap(example_loss, in_axes=(None, 0, 0, 0))(params, x, mask, y).mean()


@jax.jit
def train_step(params, opt_state, x, mask, y):
    loss, grads = jax.value_and_grad(batch_loss)(params, x, mask, y)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, loss


def make_batch(rng):
    x = rng.normal(size=(B, SET, FEAT)).astype(np.float32)
    n = rng.integers(2, SET + 1, B)
    mask = np.arange(SET)[None] < n[:, None]
    y = ((x.max(-1) * mask).sum(1) / n * 2).astype(np.float32)
    return x, mask, y


def main(steps=5):
    rng = np.random.default_rng(4)
    x, mask, y = make_batch(rng)
    params = model.init(jax.random.key(0), x[0], mask[0])["params"]
    opt_state = tx.init(params)
    for i in range(steps):
        params, opt_state, loss = train_step(params, opt_state, *make_batch(rng))
        print(f"step {i}: {float(loss):.5f}")


if __name__ == "__main__":
    main()
