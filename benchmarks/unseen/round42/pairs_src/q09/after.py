"""PPO update with GAE for a continuous valve-control task (tanh-free Gaussian policy), pure JAX + optax."""
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

OBS, ACT, T, ENVS, HID = 5, 2, 6, 4, 10


def init_linear(key, n_in, n_out, scale):
    w = jax.nn.initializers.orthogonal(scale)(key, (n_in, n_out))
    return {"w": w, "b": jnp.zeros((n_out,))}


def init_params(key):
    k = jax.random.split(key, 5)
    return {
        "pi1": init_linear(k[0], OBS, HID, 2.0 ** 0.5),
        "pi2": init_linear(k[1], HID, ACT, 0.01),
        "log_std": jnp.full((ACT,), -0.5),
        "v1": init_linear(k[2], OBS, HID, 2.0 ** 0.5),
        "v2": init_linear(k[3], HID, 1, 1.0),
    }


def linear(p, x):
    return x @ p["w"] + p["b"]


def policy(params, obs):
    mean = linear(params["pi2"], jnp.tanh(linear(params["pi1"], obs)))
    return mean, params["log_std"]


def value(params, obs):
    return linear(params["v2"], jnp.tanh(linear(params["v1"], obs)))[..., 0]


def log_prob(mean, log_std, act):
    z = (act - mean) * jnp.exp(-log_std)
    return jnp.sum(-0.5 * z * z - log_std - 0.5 * jnp.log(2.0 * jnp.pi), axis=-1)


def gae(reward, done, values, last_value, gamma=0.99, lam=0.95):
    def back(carry, x):
        adv, nxt = carry
        r, d, v = x
        delta = r + gamma * nxt * (1.0 - d) - v
        adv = delta + gamma * lam * (1.0 - d) * adv
        return (adv, v), adv

    init = (jnp.zeros_like(last_value), last_value)
    _, adv = jax.lax.scan(back, init, (reward, done, values), reverse=True)
    return adv, adv + values


def ppo_loss(params, batch, clip=0.2, vf_coef=0.5, ent_coef=0.01):
    old_values = value(params, batch["obs"])
    last = value(params, batch["last_obs"])
    adv, returns = gae(batch["reward"], batch["done"], old_values, last)
    adv, returns = jax.lax.stop_gradient((adv, returns))
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)

    mean, log_std = policy(params, batch["obs"])
    ratio = jnp.exp(log_prob(mean, log_std, batch["act"]) - batch["logp"])
    surrogate = jnp.minimum(ratio * adv, jnp.clip(ratio, 1 - clip, 1 + clip) * adv)
    v_loss = 0.5 * jnp.mean((value(params, batch["obs"]) - returns) ** 2)
    entropy = jnp.sum(log_std + 0.5 * jnp.log(2.0 * jnp.pi * jnp.e))
    approx_kl = jnp.mean(ratio - 1.0 - jnp.log(ratio))
    total = -jnp.mean(surrogate) + vf_coef * v_loss - ent_coef * entropy
    return total, {"v_loss": v_loss, "kl": approx_kl}


tx = optax.chain(
    optax.scale_by_adam(eps=1e-5),
    optax.clip_by_global_norm(0.5),
    optax.scale_by_schedule(optax.linear_schedule(-3e-4, 0.0, 1000)),
)


@jax.jit
def update(params, opt_state, batch):
    (loss, aux), grads = jax.value_and_grad(ppo_loss, has_aux=True)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss, aux


def main():
    rng = np.random.default_rng(4)

    def rollout():
        f = lambda *s: rng.normal(size=s).astype(np.float32)
        return {"obs": f(T, ENVS, OBS), "act": f(T, ENVS, ACT), "reward": f(T, ENVS),
                "logp": f(T, ENVS) * 0.3 - 2.0, "last_obs": f(ENVS, OBS),
                "done": (rng.uniform(size=(T, ENVS)) < 0.1).astype(np.float32)}

    params = init_params(jax.random.PRNGKey(2))
    opt_state = tx.init(params)
    lowered = update.lower(params, opt_state, rollout())
    open(sys.argv[1], "w").write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(4):
        params, opt_state, loss, aux = update(params, opt_state, rollout())
        print(i, float(loss), float(aux["kl"]), float(params["v1"]["w"].sum()))


main()
