from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax


class Tower(nn.Module):
    width: int = 16
    out: int = 8
    dtype: jnp.dtype = jnp.bfloat16

    @nn.compact
    def __call__(self, x):
        h = nn.Dense(self.width, dtype=self.dtype)(x)
        h = nn.gelu(nn.LayerNorm(dtype=self.dtype)(h))
        z = nn.Dense(self.out, use_bias=False, dtype=self.dtype)(h)
        return z * jax.lax.rsqrt(jnp.sum(z * z, -1, keepdims=True) + 1e-6)


class TwoTower(nn.Module):
    @nn.compact
    def __call__(self, query, item):
        return Tower(name="query")(query), Tower(name="item")(item)


def info_nce(q, k, tau):
    logits = (q @ k.T) / tau
    labels = jnp.arange(q.shape[0])
    row = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
    col = optax.softmax_cross_entropy_with_integer_labels(logits.T, labels)
    recall = (logits.argmax(-1) == labels).mean()
    return 0.5 * (row.mean() + col.mean()), recall


model = TwoTower()
tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3, weight_decay=0.01))


@partial(jax.jit, donate_argnums=(0, 1))
def train_step(params, opt_state, query, item, tau):
    def loss_fn(p):
        q, k = model.apply(p, query, item)
        return info_nce(q, k, tau)

    (loss, recall), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, {"loss": loss, "recall": recall}


class TemperatureSchedule:
    """Holds tau for the first steps, then anneals it geometrically."""

    def __init__(self, start=0.2, end=0.05, hold=3, total=8):
        self.start, self.end, self.hold = start, end, hold
        self.curve = np.geomspace(start, end, total - hold).astype(np.float32)

    def __call__(self, step):
        if step < self.hold:
            return self.start
        return self.curve[min(step - self.hold, len(self.curve) - 1)]


def batches(n, bs=16, dim=12, seed=0):
    rng = np.random.default_rng(seed)
    proj = rng.normal(size=(dim, dim)).astype(np.float32)
    for _ in range(n):
        a = rng.normal(size=(bs, dim)).astype(np.float32)
        yield a, a @ proj + 0.1 * rng.normal(size=a.shape).astype(np.float32)


def main(steps=6):
    tau = TemperatureSchedule()
    q0, k0 = next(batches(1))
    params = model.init(jax.random.PRNGKey(0), q0, k0)
    opt_state = tx.init(params)
    for step, (q, k) in enumerate(batches(steps)):
        params, opt_state, m = train_step(params, opt_state, q, k, tau(step))
        print(f"step {step} tau {tau(step):.3f} loss {float(m['loss']):.3f} recall {float(m['recall']):.2f}")


if __name__ == "__main__":
    main()
