"""Energy-based model on a 2-D mixture, trained by contrastive divergence with a
persistent buffer of Langevin chains."""
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct
from flax.training.train_state import TrainState
from jax import lax


@struct.dataclass
class LangevinParams:
    step_size: float = struct.field(pytree_node=False, default=0.02)
    noise: float = struct.field(pytree_node=False, default=0.05)
    grad_clip: float = struct.field(pytree_node=False, default=1.0)
    reinit_prob: float = struct.field(pytree_node=False, default=0.05)


class Energy(nn.Module):
    features: tuple = (24,)

    @nn.compact
    def __call__(self, x):
        for i, f in enumerate(self.features):
            y = nn.Dense(f, name=f"fc{i}")(x)
            y = nn.swish(y)
            x = y if x.shape != y.shape else x + y
        return nn.Dense(1, name="out")(x)[..., 0]


def langevin(apply_fn, params, x, key, n_steps, lp):
    energy_grad = jax.grad(lambda v: apply_fn({"params": params}, v).sum())

    def body(i, x):
        g = jnp.clip(energy_grad(x), -lp.grad_clip, lp.grad_clip)
        eps = jax.random.normal(jax.random.fold_in(key, i), x.shape)
        return x - lp.step_size * g + lp.noise * eps

    return lax.stop_gradient(lax.fori_loop(0, n_steps, body, x))


@partial(jax.jit, static_argnames=("n_steps", "lp"))
def train_step(state, buffer, batch, key, n_steps, lp):
    k_pick, k_reset, k_coin, k_chain = jax.random.split(key, 4)
    n = batch.shape[0]
    idx = jax.random.randint(k_pick, (n,), 0, buffer.shape[0])
    fresh = jax.random.uniform(k_reset, batch.shape, minval=-2.0, maxval=2.0)
    reset = jax.random.bernoulli(k_coin, lp.reinit_prob, (n, 1))
    x0 = jnp.where(reset, fresh, buffer[idx])
    x_neg = langevin(state.apply_fn, state.params, x0, k_chain, n_steps, lp)

    def loss_fn(params):
        e_pos = state.apply_fn({"params": params}, batch)
        e_neg = state.apply_fn({"params": params}, x_neg)
        cd = e_pos.mean() - e_neg.mean()
        reg = (e_pos**2).mean() + (e_neg**2).mean()
        return cd + 0.1 * reg, {"cd": cd, "e_pos": e_pos.mean(), "e_neg": e_neg.mean()}

    (loss, aux), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    state = state.apply_gradients(grads=grads)
    return state, buffer.at[idx].set(x_neg), dict(aux, loss=loss)


def chain_length(step, base=10, every=4, growth=5, limit=40):
    return min(limit, base + growth * (step // every))


def mixture(rs, n):
    centre = rs.randint(0, 5, size=n) * 2 * np.pi / 5
    pts = np.stack([np.cos(centre), np.sin(centre)], 1)
    return (pts + 0.07 * rs.randn(n, 2)).astype(np.float32)


def main(steps=10, batch=16, buffer_size=48):
    rs = np.random.RandomState(0)
    key = jax.random.key(0)
    model = Energy()
    params = model.init(jax.random.key(1), jnp.zeros((1, 2)))["params"]
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3, b1=0.0))
    state = TrainState.create(apply_fn=model.apply, params=params, tx=tx)
    state = state.replace(step=jnp.asarray(state.step))
    buffer = jnp.asarray(rs.uniform(-2, 2, size=(buffer_size, 2)), jnp.float32)
    lp = LangevinParams()
    for step in range(steps):
        key, sub = jax.random.split(key)
        state, buffer, logs = train_step(
            state, buffer, jnp.asarray(mixture(rs, batch)), sub, chain_length(step), lp)
        print(step, {k: round(float(v), 4) for k, v in logs.items()})


if __name__ == "__main__":
    main()
