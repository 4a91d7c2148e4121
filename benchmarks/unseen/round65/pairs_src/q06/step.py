"""PPO update for a discrete-action policy on a toy drift environment."""
import os
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState


@dataclass(frozen=True)
class PPOConfig:
    obs_dim: int = 10
    n_actions: int = 4
    hidden: int = 32
    n_envs: int = 8
    horizon: int = 16
    epochs: int = 2
    minibatches: int = 4
    gamma: float = 0.99
    lam: float = 0.95
    lr: float = 2.5e-4
    clip_eps: float = 0.2
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
    total_updates: int = 8
    anneal: bool = True


class ActorCritic(nn.Module):
    n_actions: int
    hidden: int

    @nn.compact
    def __call__(self, obs):
        init = nn.initializers.orthogonal
        h = nn.tanh(nn.Dense(self.hidden, kernel_init=init(np.sqrt(2)), name="trunk")(obs))
        logits = nn.Dense(self.n_actions, kernel_init=init(0.01), name="policy")(h)
        value = nn.Dense(1, kernel_init=init(1.0), name="value")(h)
        return logits, value[..., 0]


class Rollout(NamedTuple):
    obs: jax.Array
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    reward: jax.Array
    done: jax.Array


def gae(rollout, last_value, gamma, lam):
    def body(carry, x):
        adv, next_value = carry
        value, reward, done = x
        delta = reward + gamma * next_value * (1.0 - done) - value
        adv = delta + gamma * lam * (1.0 - done) * adv
        return (adv, value), adv

    _, adv = jax.lax.scan(body, (jnp.zeros_like(last_value), last_value),
                          (rollout.value, rollout.reward, rollout.done), reverse=True)
    return adv, adv + rollout.value


def ppo_loss(params, apply_fn, mb, clip_eps, vf_coef, ent_coef):
    obs, action, old_log_prob, old_value, adv, target = mb
    logits, value = apply_fn({"params": params}, obs)
    logp_all = nn.log_softmax(logits)
    logp = jnp.take_along_axis(logp_all, action[:, None], axis=-1)[:, 0]
    ratio = jnp.exp(logp - old_log_prob)
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    pg = -jnp.minimum(ratio * adv, jnp.clip(ratio, 1.0 - clip_eps, 1.0 + clip_eps) * adv).mean()
    v_clip = old_value + jnp.clip(value - old_value, -clip_eps, clip_eps)
    vf = 0.5 * jnp.maximum((value - target) ** 2, (v_clip - target) ** 2).mean()
    entropy = -(jnp.exp(logp_all) * logp_all).sum(-1).mean()
    return pg + vf_coef * vf - ent_coef * entropy, (pg, vf, entropy)


@partial(jax.jit, static_argnames=("cfg", "clip_eps"))
def update(state, rollout, last_value, key, cfg, clip_eps):
    adv, target = gae(rollout, last_value, cfg.gamma, cfg.lam)
    n = cfg.n_envs * cfg.horizon
    flat = jax.tree.map(lambda x: x.reshape((n,) + x.shape[2:]),
                        (rollout.obs, rollout.action, rollout.log_prob, rollout.value, adv, target))

    def minibatch(state, mb):
        (loss, aux), grads = jax.value_and_grad(ppo_loss, has_aux=True)(
            state.params, state.apply_fn, mb, clip_eps, cfg.vf_coef, cfg.ent_coef)
        return state.apply_gradients(grads=grads), (loss, *aux)

    def epoch(state, key):
        perm = jax.random.permutation(key, n)
        mbs = jax.tree.map(lambda x: x[perm].reshape((cfg.minibatches, -1) + x.shape[1:]), flat)
        return jax.lax.scan(minibatch, state, mbs)

    state, metrics = jax.lax.scan(epoch, state, jax.random.split(key, cfg.epochs))
    return state, jax.tree.map(jnp.mean, metrics)


@jax.jit
def act(state, obs, key):
    logits, value = state.apply_fn({"params": state.params}, obs)
    action = jax.random.categorical(key, logits)
    logp = jnp.take_along_axis(nn.log_softmax(logits), action[:, None], axis=-1)[:, 0]
    return action, logp, value


class DriftEnv:
    def __init__(self, cfg, seed):
        self.cfg, self.rng = cfg, np.random.default_rng(seed)
        self.push = self.rng.standard_normal((cfg.n_actions, cfg.obs_dim)).astype(np.float32) * 0.3
        self.obs = self.rng.standard_normal((cfg.n_envs, cfg.obs_dim)).astype(np.float32)

    def step(self, action):
        noise = self.rng.standard_normal(self.obs.shape).astype(np.float32) * 0.1
        self.obs = 0.95 * self.obs + self.push[action] + noise
        reward = -np.square(self.obs).mean(axis=-1)
        done = (reward < -2.0).astype(np.float32)
        self.obs = np.where(done[:, None] > 0, noise, self.obs).astype(np.float32)
        return reward.astype(np.float32), done


def collect(env, state, key, cfg):
    rows = []
    for k in jax.random.split(key, cfg.horizon):
        obs = env.obs
        action, logp, value = act(state, obs, k)
        reward, done = env.step(np.asarray(action))
        rows.append(Rollout(obs, np.asarray(action), np.asarray(logp), np.asarray(value), reward, done))
    return Rollout(*(np.stack(x) for x in zip(*rows)))


def main():
    cfg = PPOConfig()
    key = jax.random.PRNGKey(0)
    env = DriftEnv(cfg, seed=0)
    net = ActorCritic(cfg.n_actions, cfg.hidden)
    params = net.init(key, env.obs)["params"]
    n_opt = cfg.total_updates * cfg.epochs * cfg.minibatches
    tx = optax.chain(optax.clip_by_global_norm(cfg.max_grad_norm),
                     optax.adam(optax.linear_schedule(cfg.lr, 0.0, n_opt), eps=1e-5))
    state = TrainState.create(apply_fn=net.apply, params=params, tx=tx)
    dump = os.environ.get("DUMP_HLO")

    for i in range(cfg.total_updates):
        key, k_roll, k_last, k_upd = jax.random.split(key, 4)
        rollout = collect(env, state, k_roll, cfg)
        last_value = act(state, env.obs, k_last)[2]
        frac = 1.0 - i / cfg.total_updates if cfg.anneal else 1.0
        call = (state, rollout, last_value, k_upd, cfg, cfg.clip_eps * frac)
        if dump:
            with open(f"{dump}.{i}.hlo", "w") as f:
                f.write(update.lower(*call).compiler_ir("hlo").as_hlo_text())
        state, (loss, pg, vf, ent) = update(*call)
        print(f"update {i} loss {loss:.4f} pg {pg:.4f} vf {vf:.4f} entropy {ent:.4f} compiled {update._cache_size()}",
              flush=True)


if __name__ == "__main__":
    main()
