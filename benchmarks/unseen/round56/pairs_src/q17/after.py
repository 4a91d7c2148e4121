"""Recurrent-free PPO learner in JAX."""
import functools
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax


class Rollout(NamedTuple):
  obs: jax.Array
  actions: jax.Array
  log_probs: jax.Array
  rewards: jax.Array
  discounts: jax.Array


class ActorCritic(nn.Module):
  n_actions: int
  width: int = 32

  @nn.compact
  def __call__(self, obs):
    h = nn.tanh(nn.Dense(self.width, name='fc1')(obs))
    h = nn.tanh(nn.Dense(self.width, name='fc2')(h))
    logits = nn.Dense(self.n_actions, name='policy')(h)
    value = nn.Dense(1, name='value')(h)
    return logits, value[..., 0]


def gae(rewards, discounts, values, lam):
  deltas = rewards + discounts * values[1:] - values[:-1]

  def body(acc, x):
    delta, discount = x
    acc = delta + discount * lam * acc
    return acc, acc

  _, adv = jax.lax.scan(body, jnp.zeros_like(deltas[0]), (deltas, discounts),
                        reverse=True)
  return adv


def ppo_loss(params, apply_fn, rollout, clip=0.2, lam=0.95, vf=0.5, ent=0.01):
  logits, values = apply_fn(params, rollout.obs)
  baseline = jax.lax.stop_gradient(values)
  adv = gae(rollout.rewards, rollout.discounts, baseline, lam)
  returns = adv + baseline[:-1]
  adv = (adv - adv.mean()) / (adv.std() + 1e-8)

  log_pi = jax.nn.log_softmax(logits[:-1])
  log_prob = jnp.take_along_axis(log_pi, rollout.actions[..., None], -1)[..., 0]
  ratio = jnp.exp(log_prob - rollout.log_probs)
  clipped = jnp.clip(ratio, 1 - clip, 1 + clip)
  policy_loss = -jnp.minimum(ratio * adv, clipped * adv).mean()
  value_loss = jnp.square(returns - values[:-1]).mean()
  entropy = -(jnp.exp(log_pi) * log_pi).sum(-1).mean()
  loss = policy_loss + vf * value_loss - ent * entropy
  return loss, dict(policy=policy_loss, value=value_loss, entropy=entropy)


@functools.partial(jax.jit, static_argnums=(0, 1))
def update(apply_fn, tx, params, opt_state, rollout):
  grad_fn = jax.value_and_grad(ppo_loss, has_aux=True)
  (loss, aux), grads = grad_fn(params, apply_fn, rollout)
  updates, opt_state = tx.update(grads, opt_state, params)
  params = optax.apply_updates(params, updates)
  return params, opt_state, dict(aux, loss=loss, grad_norm=optax.global_norm(grads))


def fake_rollout(rng, steps=10, envs=6, obs_dim=9, n_actions=4):
  return Rollout(
      obs=rng.standard_normal((steps + 1, envs, obs_dim), dtype=np.float32),
      actions=rng.integers(0, n_actions, (steps, envs), dtype=np.int32),
      log_probs=np.full((steps, envs), -np.log(n_actions), np.float32),
      rewards=rng.standard_normal((steps, envs), dtype=np.float32),
      discounts=np.float32(0.99) * (rng.random((steps, envs)) > 0.05).astype(np.float32))


def setup():
  net = ActorCritic(n_actions=4)
  params = net.init(jax.random.PRNGKey(0), jnp.zeros((1, 9)))
  tx = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-4, eps=1e-5))
  return net.apply, tx, params, tx.init(params)


def main():
  apply_fn, tx, params, opt_state = setup()
  rng = np.random.default_rng(0)
  for i in range(3):
    params, opt_state, logs = update(apply_fn, tx, params, opt_state,
                                     fake_rollout(rng))
    print(i, {k: round(float(v), 5) for k, v in logs.items()})


if __name__ == '__main__':
  main()
