"""Double-DQN learner (toy chain)."""
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

NUM_OBS = 8
NUM_ACTIONS = 4


class Transition(NamedTuple):
    state: jax.Array
    next_state: jax.Array
    action: jax.Array
    reward: jax.Array
    terminal: jax.Array


class Learner(NamedTuple):
    opt_state: optax.OptState
    slow: dict
    online: dict


class Trunk(nn.Module):
    width: int

    def setup(self):
        self.l0 = nn.Dense(self.width)
        self.n0 = nn.LayerNorm()
        self.l1 = nn.Dense(self.width)

    def __call__(self, s):
        return jnp.tanh(self.l1(self.n0(jnp.tanh(self.l0(s)))))


class DuelingQ(nn.Module):
    width: int = 32

    def setup(self):
        self.body = Trunk(self.width)
        self.state_value = nn.Dense(1)
        self.advantage = nn.Dense(NUM_ACTIONS)

    def __call__(self, s):
        z = self.body(s)
        a = self.advantage(z)
        v = self.state_value(z)
        return v + a - jnp.mean(a, axis=-1, keepdims=True)


model = DuelingQ()
optimizer = optax.chain(
    optax.clip_by_global_norm(5.0),
    optax.scale_by_adam(),
    optax.scale_by_learning_rate(1e-3),
)


def select(q, action):
    return jnp.take_along_axis(q, action[:, None], axis=1)[:, 0]


def bootstrap(online, slow, tr, discount):
    slow_q = model.apply(slow, tr.next_state)
    greedy = jnp.argmax(model.apply(online, tr.next_state), axis=-1)
    not_done = 1.0 - tr.terminal
    return jax.lax.stop_gradient(tr.reward + discount * not_done * select(slow_q, greedy))


def huber(delta):
    small = jnp.abs(delta) < 1.0
    return jnp.where(small, 0.5 * delta**2, jnp.abs(delta) - 0.5)


def learner_step(tr, learner, discount=0.97, tau=0.01):
    y = bootstrap(learner.online, learner.slow, tr, discount)

    def objective(online):
        delta = select(model.apply(online, tr.state), tr.action) - y
        return huber(delta).mean(), jnp.abs(delta)

    (loss, priority), grads = jax.value_and_grad(objective, has_aux=True)(learner.online)
    upd, opt_state = optimizer.update(grads, learner.opt_state)
    online = optax.apply_updates(learner.online, upd)
    slow = jax.tree.map(lambda s, o: (1 - tau) * s + tau * o, learner.slow, online)
    return priority, loss, Learner(opt_state, slow, online)


step_fn = jax.jit(learner_step)


def sample(rng, n):
    s = rng.normal(size=(n, NUM_OBS)).astype(np.float32)
    a = rng.integers(0, NUM_ACTIONS, n).astype(np.int32)
    r = rng.normal(size=n).astype(np.float32)
    s2 = rng.normal(size=(n, NUM_OBS)).astype(np.float32)
    d = (rng.random(n) < 0.1).astype(np.float32)
    return Transition(s, s2, a, r, d)


def main():
    online = model.init(jax.random.key(0), jnp.zeros((1, NUM_OBS)))
    learner = Learner(optimizer.init(online), online, online)
    rng = np.random.default_rng(0)
    for i in range(5):
        priority, loss, learner = step_fn(sample(rng, 48), learner)
        print(i, f"{float(loss):.9f}", f"{float(priority.max()):.6f}")


if __name__ == "__main__":
    main()
