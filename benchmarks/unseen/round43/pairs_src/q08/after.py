"""PPO on short vectorised rollouts: GAE by reverse scan, clipped objective, flax actor-critic, optax."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

STEPS, ENVS, OBS, ACTIONS = 6, 4, 7, 3
GAMMA, LAM, CLIP = 0.99, 0.95, 0.2


class ActorCritic(nn.Module):
    @nn.compact
    def __call__(self, obs):
        h = nn.tanh(nn.Dense(16)(obs))
        pi = nn.tanh(nn.Dense(16)(h))
        v = nn.tanh(nn.Dense(16)(h))
        return nn.Dense(ACTIONS)(pi), nn.Dense(1)(v)[..., 0]


model = ActorCritic()
tx = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(2.5e-4, eps=1e-5))


def compute_gae(rewards, values, dones, last_value):
    def body(carry, x):
        gae, next_value = carry
        reward, value, done = x
        delta = reward + GAMMA * next_value * (1.0 - done) - value
        gae = delta + GAMMA * LAM * gae
        return (gae, value), gae

    init = (jnp.zeros_like(last_value), last_value)
    _, adv = jax.lax.scan(body, init, (rewards, values, dones), reverse=True)
    return adv, adv + values


def loss_fn(params, batch, adv, returns):
    logits, value = model.apply(params, batch["obs"])
    log_all = jax.nn.log_softmax(logits)
    log_p = jnp.take_along_axis(log_all, batch["act"][..., None], axis=-1)[..., 0]
    ratio = jnp.exp(log_p - batch["log_p"])
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    policy = -jnp.minimum(ratio * adv, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * adv).mean()
    v_clip = batch["value"] + jnp.clip(value - batch["value"], -CLIP, CLIP)
    critic = 0.5 * jnp.maximum((value - returns) ** 2, (v_clip - returns) ** 2).mean()
    entropy = -(jnp.exp(log_all) * log_all).sum(-1).mean()
    return policy + 0.5 * critic - 0.01 * entropy, (policy, critic, entropy)


def step(params, opt_state, batch):
    _, last_value = model.apply(params, batch["last_obs"])
    adv, returns = compute_gae(batch["reward"], batch["value"], batch["done"], last_value)
    (loss, aux), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch, adv, returns)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss, aux


def make_batch(key):
    k = jax.random.split(key, 6)
    return {
        "obs": jax.random.normal(k[0], (STEPS, ENVS, OBS)),
        "act": jax.random.randint(k[1], (STEPS, ENVS), 0, ACTIONS),
        "log_p": jnp.full((STEPS, ENVS), -1.0986),
        "value": 0.1 * jax.random.normal(k[2], (STEPS, ENVS)),
        "reward": jax.random.normal(k[3], (STEPS, ENVS)),
        "done": jax.random.bernoulli(k[4], 0.3, (STEPS, ENVS)).astype(jnp.float32),
        "last_obs": jax.random.normal(k[5], (ENVS, OBS)),
    }


def main(path):
    key = jax.random.PRNGKey(7)
    params = model.init(key, jnp.zeros((1, OBS)))
    opt_state = tx.init(params)
    batch = make_batch(key)
    lowered = jax.jit(step).lower(params, opt_state, batch)
    with open(path, "w") as f:
        f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    fast = jax.jit(step)
    for i in range(4):
        params, opt_state, loss, aux = fast(params, opt_state, make_batch(jax.random.fold_in(key, i)))
        print(i, float(loss), [float(a) for a in aux])


if __name__ == "__main__":
    main(sys.argv[1])
