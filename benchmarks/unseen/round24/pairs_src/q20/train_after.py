"""PPO on a vectorised point-mass environment (all on device)."""
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

CONFIG = {
    "NUM_ENVS": 6,
    "HORIZON": 8,
    "GAMMA": 0.98,
    "GAE_LAMBDA": 0.9,
    "CLIP_EPS": 0.2,
    "VF_COEF": 0.5,
    "ENT_COEF": 0.005,
    "LR": 1e-3,
    "MAX_NORM": 0.5,
    "UPDATES": 3,
}
N_ACT = 5
MOVES = jnp.array([[0.0, 0.0], [0.2, 0.0], [-0.2, 0.0], [0.0, 0.2], [0.0, -0.2]])


class Transition(NamedTuple):
    obs: jax.Array
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    reward: jax.Array
    done: jax.Array


def dense(key, n_in, n_out, scale):
    return {"w": jax.nn.initializers.orthogonal(scale)(key, (n_in, n_out)), "b": jnp.zeros(n_out)}


def init_agent(key):
    k = jax.random.split(key, 4)
    return {
        "torso": [dense(k[0], 4, 16, 1.4), dense(k[1], 16, 16, 1.4)],
        "policy": dense(k[2], 16, N_ACT, 0.01),
        "value": dense(k[3], 16, 1, 1.0),
    }


def agent(params, obs):
    h = obs
    for layer in params["torso"]:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    logits = h @ params["policy"]["w"] + params["policy"]["b"]
    value = h @ params["value"]["w"] + params["value"]["b"]
    return jax.nn.log_softmax(logits), value[..., 0]


def env_step(env, action):
    pos, goal = env
    pos = jnp.clip(pos + MOVES[action], -1, 1)
    dist = jnp.linalg.norm(pos - goal, axis=-1)
    done = dist < 0.4
    pos = jnp.where(done[:, None], -goal, pos)
    return (pos, goal), -dist + done, done


def rollout(params, env, key):
    def body(env, key):
        obs = jnp.concatenate(env, -1)
        logp, value = agent(params, obs)
        action = jax.random.categorical(key, logp)
        env, reward, done = env_step(env, action)
        lp = jnp.take_along_axis(logp, action[:, None], 1)[:, 0]
        return env, Transition(obs, action, lp, value, reward, done)

    return jax.lax.scan(body, env, jax.random.split(key, CONFIG["HORIZON"]))


def gae(traj, last_value):
    def back(carry, t):
        adv, next_value, alive = carry
        delta = t.reward + CONFIG["GAMMA"] * next_value * alive - t.value
        adv = delta + CONFIG["GAMMA"] * CONFIG["GAE_LAMBDA"] * alive * adv
        return (adv, t.value, 1.0 - t.done), adv

    init = (jnp.zeros_like(last_value), last_value, jnp.ones_like(last_value))
    _, adv = jax.lax.scan(back, init, traj, reverse=True)
    return adv, adv + traj.value


def ppo_loss(params, traj, adv, target):
    logp, value = agent(params, traj.obs)
    lp = jnp.take_along_axis(logp, traj.action[..., None], -1)[..., 0]
    ratio = jnp.exp(lp - traj.log_prob)
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    clipped = jnp.clip(ratio, 1 - CONFIG["CLIP_EPS"], 1 + CONFIG["CLIP_EPS"])
    pg = -jnp.minimum(ratio * adv, clipped * adv).mean()
    vf = jnp.square(value - target).mean()
    ent = -(jnp.exp(logp) * logp).sum(-1).mean()
    return pg + CONFIG["VF_COEF"] * vf - CONFIG["ENT_COEF"] * ent


tx = optax.chain(optax.clip_by_global_norm(CONFIG["MAX_NORM"]), optax.adam(CONFIG["LR"], eps=1e-5))


@jax.jit
def update(params, opt_state, env, key):
    env, traj = rollout(params, env, key)
    _, last_value = agent(params, jnp.concatenate(env, -1))
    adv, target = gae(traj, last_value)
    loss, grads = jax.value_and_grad(ppo_loss)(params, traj, adv, target)
    updates, opt_state = tx.update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state, env, loss, traj.reward.mean()


if __name__ == "__main__":
    key = jax.random.PRNGKey(1)
    params = init_agent(key)
    opt_state = tx.init(params)
    env = (jnp.zeros((CONFIG["NUM_ENVS"], 2)), jax.random.uniform(key, (CONFIG["NUM_ENVS"], 2)))
    for i in range(CONFIG["UPDATES"]):
        params, opt_state, env, loss, rew = update(params, opt_state, env, jax.random.fold_in(key, i))
        print(i, f"loss {loss:.4f} reward {rew:.3f}")
