"""Recurrent PPO update for a reservoir-release controller (two gates), hand-written advantages."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

T, B, OBS, ACT = 8, 4, 6, 2
GAMMA, LAM, CLIP = 0.98, 0.9, 0.2


class GateAgent(nn.Module):
    """Gaussian policy and value head on a small gated recurrence."""

    hidden: int = 10

    @nn.compact
    def __call__(self, obs, h0):
        inp = nn.relu(nn.Dense(self.hidden, name="inp")(obs))
        cand = nn.Dense(self.hidden, name="cand")(inp)
        keep = nn.sigmoid(nn.Dense(self.hidden, name="keep")(inp))

        def cell(h, xs):
            c, k = xs
            h = k * h + (1.0 - k) * jnp.tanh(c)
            return h, h

        _, feats = jax.lax.scan(cell, h0, (cand, keep))
        mean = nn.Dense(ACT, name="mean")(feats)
        log_std = self.param("log_std", nn.initializers.constant(-0.5), (ACT,))
        value = nn.Dense(1, name="value")(feats)[..., 0]
        return mean, log_std, value


agent = GateAgent()
tx = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-4, eps=1e-5))


def log_prob(action, mean, log_std):
    z = (action - mean) * jnp.exp(-log_std)
    return (-0.5 * z**2 - log_std - 0.5 * jnp.log(2 * jnp.pi)).sum(-1)


def advantages(rewards, values, dones, last_value):
    adv = []
    running = jnp.zeros_like(last_value)
    next_value = last_value
    for t in reversed(range(T)):
        not_done = 1.0 - dones[t]
        delta = rewards[t] + GAMMA * next_value * not_done - values[t]
        running = delta + GAMMA * LAM * not_done * running
        adv.append(running)
        next_value = values[t]
    return jnp.stack(adv[::-1])


def loss_fn(params, roll, adv, returns):
    mean, log_std, value = agent.apply(params, roll["obs"], roll["h0"])
    ratio = jnp.exp(log_prob(roll["action"], mean, log_std) - roll["logp"])
    gain = jnp.minimum(ratio * adv, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * adv).mean()
    v_clip = roll["value"] + jnp.clip(value - roll["value"], -CLIP, CLIP)
    v_loss = 0.5 * jnp.maximum((value - returns) ** 2, (v_clip - returns) ** 2).mean()
    entropy = (log_std + 0.5 * jnp.log(2 * jnp.pi * jnp.e)).sum()
    return -gain + 0.5 * v_loss - 0.01 * entropy, ((ratio - 1) - jnp.log(ratio)).mean()


def update(params, opt_state, roll):
    adv = advantages(roll["reward"], roll["value"], roll["done"], roll["last_value"])
    returns = adv + roll["value"]
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    (loss, kl), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, roll, adv, returns)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss, "kl": kl, "gnorm": optax.global_norm(grads)}


def make_rollout(key):
    ks = jax.random.split(key, 8)
    return {
        "obs": jax.random.normal(ks[0], (T, B, OBS)),
        "h0": 0.1 * jax.random.normal(ks[1], (B, 10)),
        "action": 0.5 * jax.random.normal(ks[2], (T, B, ACT)),
        "logp": -2.0 + 0.1 * jax.random.normal(ks[3], (T, B)),
        "reward": jax.random.normal(ks[4], (T, B)),
        "value": 0.3 * jax.random.normal(ks[5], (T, B)),
        "done": jax.random.bernoulli(ks[6], 0.15, (T, B)).astype(jnp.float32),
        "last_value": 0.3 * jax.random.normal(ks[7], (B,)),
    }


def main(out):
    key = jax.random.PRNGKey(4)
    roll = make_rollout(key)
    params = agent.init(key, roll["obs"], roll["h0"])
    opt_state = tx.init(params)
    step = jax.jit(update)
    with open(out, "w") as f:
        f.write(step.lower(params, opt_state, roll).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(4):
        roll = make_rollout(jax.random.fold_in(key, i))
        params, opt_state, logs = step(params, opt_state, roll)
        total = sum(float(jnp.abs(p).sum()) for p in jax.tree_util.tree_leaves(params))
        print(i, {k: round(float(v), 6) for k, v in logs.items()}, round(total, 5))


if __name__ == "__main__":
    main(sys.argv[1])
