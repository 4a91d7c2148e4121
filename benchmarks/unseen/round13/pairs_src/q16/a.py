"""DQN on a batch of replayed transitions, polyak-averaged target network."""
import sys
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Transition(NamedTuple):
    obs: jax.Array
    action: jax.Array
    reward: jax.Array
    next_obs: jax.Array
    done: jax.Array


class TrainState(NamedTuple):
    online: list
    target: list
    m: list
    v: list
    step: jax.Array


OBS, ACTIONS, HIDDEN = 6, 4, (32, 32)
GAMMA, TAU, LR = 0.99, 0.01, 3e-4


def init_net(key):
    sizes = (OBS,) + HIDDEN
    params = []
    for i, o in zip(sizes[:-1], sizes[1:]):
        key, k = jax.random.split(key)
        params.append((jax.random.normal(k, (i, o)) * (2 / i) ** 0.5, jnp.zeros(o)))
    k1, k2 = jax.random.split(key)
    params.append((jax.random.normal(k1, (HIDDEN[-1], 1)) * 0.01, jnp.zeros(1)))
    params.append((jax.random.normal(k2, (HIDDEN[-1], ACTIONS)) * 0.01, jnp.zeros(ACTIONS)))
    return params


def q_values(params, obs):
    h = obs
    for w, b in params[:-2]:
        h = jax.nn.relu(h @ w + b)
    value = h @ params[-2][0] + params[-2][1]
    adv = h @ params[-1][0] + params[-1][1]
    return value + adv - adv.mean(axis=-1, keepdims=True)


def huber(x, delta=1.0):
    a = jnp.abs(x)
    return jnp.where(a < delta, 0.5 * x * x, delta * (a - 0.5 * delta))


def td_loss(online, target, batch):
    q = q_values(online, batch.obs)
    q_sa = jnp.take_along_axis(q, batch.action[:, None], axis=1)[:, 0]
    next_q = q_values(target, batch.next_obs)
    best = next_q.max(axis=1)
    y = batch.reward + GAMMA * (1.0 - batch.done) * best
    return huber(q_sa - jax.lax.stop_gradient(y)).mean()


def adam(params, grads, m, v, t):
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
    v = jax.tree.map(lambda a, g: 0.999 * a + 0.001 * jnp.square(g), v, grads)
    lr = LR * jnp.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t)
    return jax.tree.map(lambda p, a, b: p - lr * a / (jnp.sqrt(b) + 1e-8), params, m, v), m, v


@jax.jit
def update(state, batch):
    loss, grads = jax.value_and_grad(td_loss)(state.online, state.target, batch)
    step = state.step + 1
    online, m, v = adam(state.online, grads, state.m, state.v, step)
    target = jax.tree.map(lambda t, o: (1 - TAU) * t + TAU * o, state.target, online)
    return TrainState(online, target, m, v, step), loss


def replay(rng, n=32):
    obs = rng.standard_normal((n, OBS)).astype(np.float32)
    act = rng.integers(0, ACTIONS, n).astype(np.int32)
    nxt = obs + 0.1 * rng.standard_normal((n, OBS)).astype(np.float32)
    rew = (obs[:, 0] * (act - 1.5)).astype(np.float32)
    return Transition(obs, act, rew, nxt.astype(np.float32), (rng.random(n) < 0.1).astype(np.float32))


if __name__ == "__main__":
    rng = np.random.default_rng(3)
    net = init_net(jax.random.PRNGKey(3))
    zeros = jax.tree.map(jnp.zeros_like, net)
    state = TrainState(net, net, zeros, zeros, jnp.zeros((), jnp.float32))
    if len(sys.argv) > 1:
        text = update.lower(state, replay(rng)).as_text("hlo", debug_info=True)
        open(sys.argv[1], "w").write(text)
    for _ in range(6):
        state, loss = update(state, replay(rng))
    print(f"td loss {loss:.4f}")
