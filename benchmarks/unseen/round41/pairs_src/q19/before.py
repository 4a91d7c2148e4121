"""PPO update of a lift dispatcher: GAE over a rollout, clipped surrogate, clipped value loss, one epoch."""
import sys
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

FLOORS, ACTIONS, T, N = 7, 5, 6, 4
CFG = dict(gamma=0.98, lam=0.9, clip=0.2, vf_clip=0.5, vf_coef=0.5, ent_coef=0.01, max_norm=0.5, lr=1e-3)


class ActorCritic(nn.Module):
    @nn.compact
    def __call__(self, obs):
        h = nn.tanh(nn.Dense(16, kernel_init=nn.initializers.orthogonal(2.0 ** 0.5))(obs))
        h = nn.LayerNorm()(h)
        pi = nn.tanh(nn.Dense(8)(h))
        logits = nn.Dense(ACTIONS, kernel_init=nn.initializers.orthogonal(0.01))(pi)
        v = nn.tanh(nn.Dense(8)(h))
        return logits, nn.Dense(1)(v).squeeze(-1)


net = ActorCritic()


def advantages(reward, value, done, last_value):
    def back(carry, x):
        gae, nxt = carry
        r, v, d = x
        alive = 1.0 - d
        delta = r + CFG["gamma"] * nxt * alive - v
        gae = delta + CFG["gamma"] * CFG["lam"] * alive * gae
        return (gae, v), gae

    _, adv = jax.lax.scan(back, (jnp.zeros_like(last_value), last_value), (reward, value, done), reverse=True)
    return adv, adv + value


def ppo_loss(params, roll, adv, target):
    logits, value = net.apply(params, roll["obs"])
    logp_all = jax.nn.log_softmax(logits)
    logp = jnp.take_along_axis(logp_all, roll["action"][..., None], axis=-1).squeeze(-1)
    ratio = jnp.exp(logp - roll["logp"])
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    surrogate = jnp.minimum(ratio * adv, jnp.clip(ratio, 1 - CFG["clip"], 1 + CFG["clip"]) * adv)
    near = roll["value"] + jnp.clip(value - roll["value"], -CFG["vf_clip"], CFG["vf_clip"])
    vf = 0.5 * jnp.maximum(jnp.square(value - target), jnp.square(near - target)).mean()
    entropy = -jnp.sum(jnp.exp(logp_all) * logp_all, axis=-1).mean()
    total = -surrogate.mean() + CFG["vf_coef"] * vf - CFG["ent_coef"] * entropy
    return total, {"vf": vf, "entropy": entropy, "clipped": (jnp.abs(ratio - 1) > CFG["clip"]).mean()}


tx = optax.chain(optax.clip_by_global_norm(CFG["max_norm"]), optax.adam(CFG["lr"], eps=1e-5))


@partial(jax.jit, donate_argnums=(0, 1))
def update(params, opt_state, roll):
    adv, target = advantages(roll["reward"], roll["value"], roll["done"], roll["last_value"])
    (loss, info), grads = jax.value_and_grad(ppo_loss, has_aux=True)(params, roll, adv, target)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, dict(info, loss=loss)


def rollout(rng):
    f = lambda *s: jnp.asarray(rng.normal(size=s), jnp.float32)
    return {
        "obs": f(T, N, FLOORS), "action": jnp.asarray(rng.integers(0, ACTIONS, (T, N)), jnp.int32),
        "logp": -1.6 + 0.1 * f(T, N), "reward": f(T, N), "value": f(T, N), "last_value": f(N),
        "done": jnp.asarray(rng.random((T, N)) < 0.2, jnp.float32),
    }


if __name__ == "__main__":
    rng = np.random.default_rng(51)
    params = net.init(jax.random.PRNGKey(50), jnp.zeros((1, FLOORS)))
    opt_state = tx.init(params)
    low = update.lower(params, opt_state, rollout(rng))
    open(sys.argv[1], "w").write(low.compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(3):
        params, opt_state, info = update(params, opt_state, rollout(rng))
        print(i, {k: round(float(v), 5) for k, v in info.items()})
