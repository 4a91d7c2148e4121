"""Actor-critic update for elevator dispatch, generalized advantage estimation over rollouts."""
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Rollout(NamedTuple):
    obs: jax.Array
    action: jax.Array
    reward: jax.Array
    done: jax.Array
    logp: jax.Array


class Hyper(NamedTuple):
    gamma: float = 0.98
    lam: float = 0.9
    clip: float = 0.2
    entropy: float = 0.01
    lr: float = 0.003


def mlp(layers, x):
    for w, b in layers[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = layers[-1]
    return x @ w + b


def make_mlp(rng, sizes):
    return [(jnp.asarray(rng.normal(size=(i, o)) / np.sqrt(i), jnp.float32), jnp.zeros(o))
            for i, o in zip(sizes[:-1], sizes[1:])]


def advantages(hp, values, reward, done):
    def back(carry, xs):
        gae, nxt = carry
        v, r, d = xs
        delta = r + hp.gamma * nxt * (1 - d) - v
        gae = delta + hp.gamma * hp.lam * (1 - d) * gae
        return (gae, v), gae

    last = values[-1]
    _, adv = jax.lax.scan(back, (jnp.zeros_like(last), last), (values[:-1], reward, done))
    return adv


def objective(params, hp, roll):
    values = mlp(params["critic"], roll.obs)[..., 0]
    adv = advantages(hp, jax.lax.stop_gradient(values), roll.reward, roll.done)
    target = adv + jax.lax.stop_gradient(values[:-1])
    logits = jax.nn.log_softmax(mlp(params["actor"], roll.obs[:-1]))
    logp = jnp.take_along_axis(logits, roll.action[..., None], -1)[..., 0]
    ratio = jnp.exp(logp - roll.logp)
    adv = (adv - adv.mean()) / (adv.std() + 1e-6)
    policy = -jnp.minimum(ratio * adv, jnp.clip(ratio, 1 - hp.clip, 1 + hp.clip) * adv).mean()
    critic = 0.5 * ((values[:-1] - target) ** 2).mean()
    entropy = -(jnp.exp(logits) * logits).sum(-1).mean()
    return policy + critic - hp.entropy * entropy, (policy, critic, entropy)


@jax.jit
def update(params, roll):
    hp = Hyper()

    def inner(p, _):
        grads, info = jax.grad(objective, has_aux=True)(p, hp, roll)
        gnorm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(grads)))
        scale = jnp.minimum(1.0, 0.5 / gnorm)
        return jax.tree.map(lambda w, g: w - hp.lr * scale * g, p, grads), info

    return jax.lax.scan(inner, params, None, length=4)


def main(steps=12, envs=3, obs=7, actions=4):
    rng = np.random.default_rng(3)
    params = {"actor": make_mlp(rng, (obs, 16, 16, actions)), "critic": make_mlp(rng, (obs, 16, 1))}
    for it in range(2):
        roll = Rollout(
            obs=rng.normal(size=(steps + 1, envs, obs)).astype(np.float32),
            action=rng.integers(actions, size=(steps, envs)),
            reward=rng.normal(size=(steps, envs)).astype(np.float32),
            done=(rng.random((steps, envs)) < 0.1).astype(np.float32),
            logp=np.full((steps, envs), -np.log(actions), np.float32),
        )
        params, info = update(params, roll)
        print(it, [float(v[-1]) for v in info])


if __name__ == "__main__":
    main()
