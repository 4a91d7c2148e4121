"""PPO for building HVAC set-points: GAE over a short rollout, one update, continuous actions."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

GAMMA, LAM, CLIP, VF, ENT = 0.98, 0.92, 0.2, 0.5, 1e-3
T, N, OBS, ACT = 6, 4, 7, 2


class ActorCritic(nn.Module):
    @nn.compact
    def __call__(self, obs):
        x = nn.tanh(nn.LayerNorm()(nn.Dense(12)(obs)))
        pi = nn.tanh(nn.Dense(12)(x))
        mean = nn.Dense(ACT)(pi)
        log_std = self.param("log_std", nn.initializers.constant(-0.5), (ACT,))
        v = nn.tanh(nn.Dense(12)(x))
        return mean, log_std, nn.Dense(1)(v)[..., 0]


def log_prob(mean, log_std, a):
    z = (a - mean) / jnp.exp(log_std)
    return jnp.sum(-0.5 * z ** 2 - log_std - 0.5 * jnp.log(2 * jnp.pi), axis=-1)


def gae(rewards, values, dones, next_value, next_done):
    # dones[t] says that the observation at t is the first of a new episode
    vals = jnp.concatenate([values, next_value[None]], axis=0)
    ends = jnp.concatenate([dones, next_done[None]], axis=0)

    def body(carry, x):
        r, v, v_next, end = x
        delta = r + GAMMA * v_next * (1.0 - end) - v
        carry = delta + GAMMA * LAM * (1.0 - end) * carry
        return carry, carry

    _, adv = jax.lax.scan(
        body, jnp.zeros_like(next_value),
        (rewards, values, vals[1:], ends[1:]), reverse=True)
    return adv, adv + values


def make_step(model, tx):
    def loss_fn(params, obs, act, old_logp, old_v, adv, ret):
        mean, log_std, v = model.apply(params, obs)
        logp = log_prob(mean, log_std, act)
        ratio = jnp.exp(logp - old_logp)
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        pg = -jnp.minimum(ratio * adv, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * adv).mean()
        v_clip = old_v + jnp.clip(v - old_v, -CLIP, CLIP)
        vf = 0.5 * jnp.maximum((v - ret) ** 2, (v_clip - ret) ** 2).mean()
        ent = jnp.sum(log_std + 0.5 * jnp.log(2 * jnp.pi * jnp.e))
        return pg + VF * vf - ENT * ent, (pg, vf)

    def step(params, opt_state, roll):
        adv, ret = gae(roll["rew"], roll["val"], roll["done"], roll["next_val"], roll["next_done"])
        (loss, aux), grads = jax.value_and_grad(loss_fn, has_aux=True)(
            params, roll["obs"], roll["act"], roll["logp"], roll["val"], adv, ret)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss, aux

    return step


def main(out):
    rng = np.random.default_rng(1)
    model = ActorCritic()
    params = model.init(jax.random.PRNGKey(0), jnp.zeros((1, OBS)))
    tx = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-4, eps=1e-5))
    opt_state = tx.init(params)
    f = lambda *s: jnp.asarray(rng.normal(size=s), jnp.float32)
    roll = dict(obs=f(T, N, OBS), act=f(T, N, ACT), logp=f(T, N), val=f(T, N), rew=f(T, N),
                done=jnp.asarray(rng.random((T, N)) < 0.2, jnp.float32),
                next_val=f(N), next_done=jnp.zeros((N,)))
    jitted = jax.jit(make_step(model, tx))
    low = jitted.lower(params, opt_state, roll)
    open(out, "w").write(low.compiler_ir("hlo").as_hlo_module().to_string())
    for _ in range(3):
        params, opt_state, loss, _ = jitted(params, opt_state, roll)
        print(float(loss))


if __name__ == "__main__":
    main(sys.argv[1])
