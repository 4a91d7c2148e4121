"""PPO for a simulated gripper arm, Gaussian policy, observation normaliser inside the step."""
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax


OBS, ACT, HIDDEN = 17, 5, 32


class ObsStats(NamedTuple):
    count: jax.Array
    mean: jax.Array
    m2: jax.Array


class TrainState(NamedTuple):
    params: dict
    opt_state: optax.OptState
    stats: ObsStats
    updates: jax.Array


class Rollout(NamedTuple):
    obs: jax.Array
    actions: jax.Array
    logp: jax.Array
    rewards: jax.Array
    dones: jax.Array


def dense_init(key, nin, nout, scale):
    w = jax.nn.initializers.orthogonal(scale)(key, (nin, nout), jnp.float32)
    return {"w": w, "b": jnp.zeros((nout,), jnp.float32)}


def init_params(key):
    k = jax.random.split(key, 6)
    return {
        "pi": [dense_init(k[0], OBS, HIDDEN, 1.4), dense_init(k[1], HIDDEN, HIDDEN, 1.4),
               dense_init(k[2], HIDDEN, ACT, 0.01)],
        "vf": [dense_init(k[3], OBS, HIDDEN, 1.4), dense_init(k[4], HIDDEN, HIDDEN, 1.4),
               dense_init(k[5], HIDDEN, 1, 1.0)],
        "log_std": jnp.full((ACT,), -0.5, jnp.float32),
    }


def mlp(layers, x):
    for layer in layers[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x @ layers[-1]["w"] + layers[-1]["b"]


def init_stats():
    return ObsStats(count=jnp.array(0), mean=jnp.zeros(OBS), m2=jnp.zeros(OBS))


def update_stats(stats, obs, horizon=1e6):
    """Chan et al. parallel merge, with a bounded memory."""
    flat = obs.reshape(-1, OBS)
    n = flat.shape[0]
    mean_b = flat.mean(0)
    m2_b = jnp.square(flat - mean_b).sum(0)
    total = stats.count + n
    delta = mean_b - stats.mean
    mean = stats.mean + delta * n / total
    m2 = stats.m2 + m2_b + jnp.square(delta) * stats.count * n / total
    keep = jnp.minimum(1.0, horizon / total)
    return ObsStats(total * keep, mean, m2 * keep)


def normalise(stats, obs):
    var = stats.m2 / jnp.maximum(stats.count, 1)
    return jnp.clip((obs - stats.mean) * jax.lax.rsqrt(var + 1e-6), -8.0, 8.0)


def gae(rewards, dones, values, gamma=0.99, lam=0.95):
    adv = jnp.zeros_like(rewards[0])
    out = []
    for t in reversed(range(rewards.shape[0])):
        alive = 1.0 - dones[t]
        delta = rewards[t] + gamma * values[t + 1] * alive - values[t]
        adv = delta + gamma * lam * alive * adv
        out.append(adv)
    return jnp.stack(out[::-1])


def gaussian_logp(params, obs, actions):
    mu = mlp(params["pi"], obs)
    z = (actions - mu) * jnp.exp(-params["log_std"])
    return (-0.5 * z * z - params["log_std"] - 0.9189385).sum(-1)


def ppo_loss(params, obs, roll, clip, vf_coef, ent_coef):
    values = mlp(params["vf"], obs)[..., 0]
    fixed = jax.lax.stop_gradient(values)
    adv = gae(roll.rewards, roll.dones, fixed)
    ret = adv + fixed[:-1]
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    ratio = jnp.exp(gaussian_logp(params, obs[:-1], roll.actions) - roll.logp)
    surr = jnp.minimum(ratio * adv, jnp.clip(ratio, 1 - clip, 1 + clip) * adv)
    v_loss = jnp.square(values[:-1] - ret).mean()
    entropy = (params["log_std"] + 1.4189385).sum()
    loss = -surr.mean() + vf_coef * v_loss - ent_coef * entropy
    return loss, {"v_loss": v_loss, "entropy": entropy, "ratio": ratio.mean()}


def make_update(tx):
    @functools.partial(jax.jit, static_argnames=("clip", "vf_coef", "ent_coef"))
    def update(state, roll, clip=0.2, vf_coef=0.5, ent_coef=0.003):
        stats = update_stats(state.stats, roll.obs[:-1])
        obs = normalise(stats, roll.obs)
        (loss, aux), grads = jax.value_and_grad(ppo_loss, has_aux=True)(
            state.params, obs, roll, clip, vf_coef, ent_coef)
        delta, opt_state = tx.update(grads, state.opt_state, state.params)
        params = optax.apply_updates(state.params, delta)
        aux["loss"] = loss
        return TrainState(params, opt_state, stats, state.updates + 1), aux
    return update


def collect(rng, steps=6, envs=8):
    f = lambda *s: rng.normal(size=s).astype(np.float32)
    return Rollout(obs=f(steps + 1, envs, OBS), actions=f(steps, envs, ACT),
                   logp=-5.0 + 0.1 * f(steps, envs), rewards=f(steps, envs),
                   dones=(rng.random((steps, envs)) < 0.05).astype(np.float32))


def setup(seed=0):
    tx = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-4, eps=1e-5))
    params = init_params(jax.random.PRNGKey(seed))
    state = TrainState(params, tx.init(params), init_stats(), jnp.zeros((), jnp.int32))
    return make_update(tx), state


def main(updates=4, on_call=None):
    update, state = setup()
    rng = np.random.default_rng(0)
    for i in range(updates):
        roll = collect(rng)
        if on_call is not None:
            on_call(i, update, state, roll)
        state, aux = update(state, roll)
        print(i, {k: round(float(v), 4) for k, v in aux.items()}, "compiled:", update._cache_size())


if __name__ == "__main__":
    main()
