"""PPO update of an HVAC controller from one rollout: GAE, clipped surrogate, clipped value loss.

usage: before.py OUT.hlo
"""
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

T, N_ENV, N_OBS, N_ACT, HID = 12, 3, 5, 4, 8
GAMMA, LAM, CLIP = 0.97, 0.9, 0.2
VALUE_COEF, ENTROPY_COEF = 0.5, 0.01


def init_params(key):
    k1, k2, k3, k4 = jax.random.split(key, 4)
    return {
        "body": {"w": 0.5 * jax.random.normal(k1, (N_OBS, HID)), "b": jnp.zeros(HID)},
        "mix": {"w": 0.4 * jax.random.normal(k2, (HID, HID)), "b": jnp.zeros(HID)},
        "policy": {"w": 0.01 * jax.random.normal(k3, (HID, N_ACT)), "b": jnp.zeros(N_ACT)},
        "value": {"w": 0.3 * jax.random.normal(k4, (HID, 1)), "b": jnp.zeros(1)},
    }


def dense(p, x):
    return x @ p["w"] + p["b"]


def forward(params, obs):
    h = jnp.tanh(dense(params["body"], obs))
    h = jnp.tanh(dense(params["mix"], h))
    return dense(params["policy"], h), dense(params["value"], h)[..., 0]


def gae(reward, done, value, last_value):
    """done[t]: the episode ended with the action taken at t."""

    def backward(carry, xs):
        adv, next_value = carry
        r, d, v = xs
        alive = 1.0 - d
        delta = r + GAMMA * next_value * alive - v
        adv = delta + GAMMA * LAM * alive * adv
        return (adv, v), adv

    start = (jnp.zeros_like(last_value), last_value)
    _, adv = jax.lax.scan(backward, start, (reward, done, value), reverse=True)
    return adv, adv + value


def loss_fn(params, batch):
    adv, target = gae(batch["reward"], batch["done"], batch["value"], batch["last_value"])
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)

    logits, value = forward(params, batch["obs"])
    logp_all = jax.nn.log_softmax(logits)
    logp = jnp.take_along_axis(logp_all, batch["action"][..., None], axis=-1)[..., 0]
    ratio = jnp.exp(logp - batch["logp"])
    clipped = jnp.clip(ratio, 1.0 - CLIP, 1.0 + CLIP)
    policy_loss = -jnp.minimum(ratio * adv, clipped * adv).mean()

    value_clip = batch["value"] + jnp.clip(value - batch["value"], -CLIP, CLIP)
    value_loss = 0.5 * jnp.maximum((value - target) ** 2, (value_clip - target) ** 2).mean()
    entropy = -(jnp.exp(logp_all) * logp_all).sum(-1).mean()
    loss = policy_loss + VALUE_COEF * value_loss - ENTROPY_COEF * entropy
    return loss, {"policy": policy_loss, "value": value_loss, "entropy": entropy}


tx = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-4, eps=1e-5))


def update(params, opt_state, batch):
    (loss, aux), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss, aux


def rollout(rng):
    f = lambda *s: rng.normal(size=s).astype(np.float32)
    return {
        "obs": f(T, N_ENV, N_OBS),
        "action": rng.integers(0, N_ACT, size=(T, N_ENV)).astype(np.int32),
        "logp": np.full((T, N_ENV), -np.log(N_ACT), np.float32),
        "reward": f(T, N_ENV),
        "done": (rng.uniform(size=(T, N_ENV)) < 0.15).astype(np.float32),
        "value": f(T, N_ENV),
        "last_value": f(N_ENV),
    }


def main(path, steps=3):
    params = init_params(jax.random.PRNGKey(1))
    opt_state = tx.init(params)
    step = jax.jit(update)
    rng = np.random.default_rng(10)
    for i in range(steps):
        batch = rollout(rng)
        if i == 0:
            with open(path, "w") as f:
                f.write(step.lower(params, opt_state, batch).compiler_ir("hlo").as_hlo_module().to_string())
        params, opt_state, loss, aux = step(params, opt_state, batch)
        print(i, float(loss), {k: round(float(v), 4) for k, v in aux.items()})


if __name__ == "__main__":
    main(sys.argv[1])
