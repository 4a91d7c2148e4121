"""Half-precision conv classifier with dynamic loss scaling (flax + optax)."""
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

CFG = dict(width=8, blocks=1, classes=4, size=12, batch=4, lr=3e-3, warmup=3, steps=5, init_scale=2 ** 12, growth_interval=200)


class LossScale(flax.struct.PyTreeNode):
    value: jax.Array
    good_steps: jax.Array

    @classmethod
    def create(cls, init):
        return cls(value=jnp.array(init), good_steps=jnp.array(0))

    def scale(self, loss):
        return loss * self.value

    def unscale(self, grads):
        inv = 1.0 / self.value
        return jax.tree.map(lambda g: g.astype(jnp.float32) * inv, grads)

    def adjust(self, finite, interval):
        good = jnp.where(finite, self.good_steps + 1, 0)
        grow = good >= interval
        value = jnp.where(finite, jnp.where(grow, self.value * 2, self.value), self.value * 0.5)
        return self.replace(value=value, good_steps=jnp.where(grow, 0, good))


class ResBlock(nn.Module):
    ch: int

    @nn.compact
    def __call__(self, x):
        y = nn.GroupNorm(num_groups=2, dtype=jnp.float16)(x)
        y = nn.Conv(self.ch, (3, 3), dtype=jnp.float16)(nn.relu(y))
        y = nn.GroupNorm(num_groups=2, dtype=jnp.float16)(y)
        y = nn.Conv(self.ch, (3, 3), dtype=jnp.float16)(nn.relu(y))
        return x + y


class Net(nn.Module):
    width: int
    classes: int

    @nn.compact
    def __call__(self, x):
        x = nn.Conv(self.width, (3, 3), strides=(2, 2), dtype=jnp.float16)(x)
        for _ in range(CFG["blocks"]):
            x = ResBlock(self.width)(x)
        x = x.mean((1, 2))
        return nn.Dense(self.classes, dtype=jnp.float16)(x).astype(jnp.float32)


class State(flax.struct.PyTreeNode):
    params: Any
    opt_state: Any
    loss_scale: LossScale


net = Net(CFG["width"], CFG["classes"])
schedule = optax.linear_schedule(0.0, CFG["lr"], CFG["warmup"])
tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule))


def tree_finite(tree):
    return jnp.all(jnp.stack([jnp.isfinite(g).all() for g in jax.tree.leaves(tree)]))


@jax.jit
def train_step(state, x, y):
    def loss_fn(p):
        logits = net.apply({"params": p}, x)
        loss = optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()
        return state.loss_scale.scale(loss), loss

    grads, loss = jax.grad(loss_fn, has_aux=True)(state.params)
    grads = state.loss_scale.unscale(grads)
    ok = tree_finite(grads)
    updates, opt_state = tx.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    pick = lambda new, old: jax.tree.map(lambda a, b: jnp.where(ok, a, b), new, old)
    return State(
        params=pick(params, state.params),
        opt_state=pick(opt_state, state.opt_state),
        loss_scale=state.loss_scale.adjust(ok, CFG["growth_interval"]),
    ), loss


def data(rng):
    y = rng.integers(0, CFG["classes"], CFG["batch"]).astype(np.int32)
    x = rng.normal(size=(CFG["batch"], CFG["size"], CFG["size"], 3)).astype(np.float32)
    return x + y[:, None, None, None] * 0.3, y


def main():
    rng = np.random.default_rng(0)
    x, y = data(rng)
    params = net.init(jax.random.key(0), x)["params"]
    state = State(params, tx.init(params), LossScale.create(CFG["init_scale"]))
    for i in range(CFG["steps"]):
        x, y = data(rng)
        state, loss = train_step(state, x.astype(np.float32), y)
        print(i, float(loss), float(state.loss_scale.value))


if __name__ == "__main__":
    main()
