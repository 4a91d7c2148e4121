"""PPO update for a warehouse-routing policy (discrete actions, shared torso)."""
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import flax.linen as nn


class Rollout(NamedTuple):
    obs: jax.Array
    action: jax.Array
    logp: jax.Array
    value: jax.Array
    advantage: jax.Array
    mask: jax.Array


class ActorCritic(nn.Module):
    n_actions: int = 7

    @nn.compact
    def __call__(self, obs, mask):
        h = nn.tanh(nn.Dense(48, kernel_init=nn.initializers.orthogonal(2**0.5))(obs))
        h = nn.LayerNorm()(h)
        h = nn.tanh(nn.Dense(48, kernel_init=nn.initializers.orthogonal(2**0.5))(h))
        logits = nn.Dense(self.n_actions, kernel_init=nn.initializers.orthogonal(0.01))(h)
        logits = jnp.where(mask, logits, -1e9)
        value = nn.Dense(1, kernel_init=nn.initializers.orthogonal(1.0))(h)
        return logits, value[..., 0]


NET = ActorCritic()
CLIP, VF_COEF, ENT_COEF = 0.2, 0.5, 0.01


def make_optimizer(lr=3e-4, weight_decay=1e-3, max_norm=0.5):
    return optax.chain(
        optax.clip_by_global_norm(max_norm),
        optax.scale_by_adam(eps=1e-5),
        optax.add_decayed_weights(weight_decay),
        optax.scale_by_learning_rate(lr),
    )


TX = make_optimizer()


def ppo_loss(params, batch):
    logits, value = NET.apply(params, batch.obs, batch.mask)
    logp_all = jax.nn.log_softmax(logits)
    logp = jnp.take_along_axis(logp_all, batch.action[:, None], -1)[:, 0]
    ratio = jnp.exp(logp - batch.logp)
    adv = (batch.advantage - batch.advantage.mean()) / (batch.advantage.std() + 1e-8)
    pg = -jnp.minimum(ratio * adv, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * adv).mean()
    target = batch.advantage + batch.value
    v_clip = batch.value + jnp.clip(value - batch.value, -CLIP, CLIP)
    vf = 0.5 * jnp.maximum((value - target) ** 2, (v_clip - target) ** 2).mean()
    entropy = -(jnp.exp(logp_all) * logp_all).sum(-1).mean()
    kl = (batch.logp - logp).mean()
    return pg + VF_COEF * vf - ENT_COEF * entropy, (pg, vf, entropy, kl)


@jax.jit
def update(params, opt_state, batch):
    (loss, aux), grads = jax.value_and_grad(ppo_loss, has_aux=True)(params, batch)
    updates, opt_state = TX.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss, aux


def fake_rollout(rng, n=32, obs_dim=20):
    mask = rng.random((n, 7)) > 0.2
    mask[:, 0] = True
    return Rollout(
        obs=jnp.asarray(rng.standard_normal((n, obs_dim)), jnp.float32),
        action=jnp.zeros(n, jnp.int32),
        logp=jnp.full(n, -np.log(5.0), jnp.float32),
        value=jnp.asarray(rng.standard_normal(n), jnp.float32),
        advantage=jnp.asarray(rng.standard_normal(n), jnp.float32),
        mask=jnp.asarray(mask),
    )


def main(iters=4):
    rng = np.random.default_rng(0)
    batch = fake_rollout(rng)
    params = NET.init(jax.random.PRNGKey(0), batch.obs, batch.mask)
    opt_state = TX.init(params)
    for i in range(iters):
        params, opt_state, loss, aux = update(params, opt_state, fake_rollout(rng))
        print(i, float(loss), [round(float(a), 4) for a in aux])


if __name__ == "__main__":
    main()
