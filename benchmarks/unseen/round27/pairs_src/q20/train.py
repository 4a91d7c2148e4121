# Half-precision training of a Fourier-feature regressor with dynamic loss scaling.
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn


class FourierMLP(nn.Module):
    width: int = 24
    depth: int = 3
    n_freq: int = 6
    dtype: jnp.dtype = jnp.bfloat16

    @nn.compact
    def __call__(self, xy):
        freqs = 2.0 ** jnp.arange(self.n_freq) * jnp.pi
        ang = (xy[:, :, None] * freqs).reshape(xy.shape[0], -1)
        h = jnp.concatenate([jnp.sin(ang), jnp.cos(ang)], axis=-1).astype(self.dtype)
        for _ in range(self.depth):
            h = nn.swish(nn.Dense(self.width, dtype=self.dtype)(h))
        return nn.Dense(3, dtype=self.dtype)(h).astype(jnp.float32)


class LossScaler:
    """Scale doubles after `period` good steps and is halved on overflow."""

    def __init__(self, initial=2 ** 12, period=4, floor=1.0):
        self.initial, self.period, self.floor = initial, period, floor

    def init(self):
        return {"scale": jnp.array(self.initial), "good_steps": jnp.array(0)}

    def update(self, state, finite):
        good = jnp.where(finite, state["good_steps"] + 1, 0)
        grow = good >= self.period
        scale = jnp.where(grow, state["scale"] * 2.0, state["scale"])
        scale = jnp.where(finite, scale, jnp.maximum(state["scale"] * 0.5, self.floor))
        return {"scale": scale, "good_steps": jnp.where(grow, 0, good)}


model = FourierMLP()
scaler = LossScaler()
tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(2e-3, b2=0.99))


def all_finite(tree):
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]).all()


@jax.jit
def train_step(params, opt_state, scaler_state, xy, rgb):

    def scaled_loss(p):
        err = model.apply(p, xy) - rgb
        loss = jnp.mean(jnp.sqrt(err * err + 1e-4))
        return loss * scaler_state["scale"], loss

    (_, loss), grads = jax.value_and_grad(scaled_loss, has_aux=True)(params)
    grads = jax.tree.map(lambda g: g / scaler_state["scale"], grads)
    finite = all_finite(grads)
    updates, new_opt = tx.update(grads, opt_state, params)
    new_params = optax.apply_updates(params, updates)
    keep = lambda new, old: jax.tree.map(lambda n, o: jnp.where(finite, n, o), new, old)
    params, opt_state = keep(new_params, params), keep(new_opt, opt_state)
    return params, opt_state, scaler.update(scaler_state, finite), loss


def target_image(xy):
    r = np.linalg.norm(xy - 0.5, axis=1, keepdims=True)
    return np.concatenate([np.sin(12 * r), xy[:, :1] * xy[:, 1:], np.cos(7 * xy[:, 1:])], axis=1)


def main(steps=6, batch=32):
    rng = np.random.default_rng(4)
    params = model.init(jax.random.key(1), jnp.zeros((1, 2)))
    opt_state = tx.init(params)
    state = scaler.init()
    for i in range(steps):
        xy = rng.random((batch, 2), dtype=np.float32)
        rgb = target_image(xy).astype(np.float32)
        params, opt_state, state, loss = train_step(params, opt_state, state, xy, rgb)
        print(f"{i}: loss {float(loss):.4f}  scale {float(state['scale']):.0f}")


if __name__ == "__main__":
    main()
