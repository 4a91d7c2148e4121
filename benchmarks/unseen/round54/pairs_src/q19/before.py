from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax


@dataclass(frozen=True)
class PPOConfig:
    actions: int = 5
    minibatch: int = 32
    lr: float = 2.5e-4
    clip: float = 0.2
    clip_value: bool = False
    vf_coef: float = 0.5
    ent_coef: float = 0.01
    max_grad_norm: float = 0.5


class Transition(NamedTuple):
    obs: jax.Array
    action: jax.Array
    logp: jax.Array
    value: jax.Array
    adv: jax.Array
    ret: jax.Array


class ActorCritic(nn.Module):
    actions: int

    @nn.compact
    def __call__(self, x):
        x = x.astype(jnp.float32) / 255.0
        x = nn.relu(nn.Conv(8, (4, 4), (2, 2), padding="VALID")(x))
        x = nn.relu(nn.Conv(16, (3, 3), (1, 1), padding="VALID")(x))
        x = x.reshape(x.shape[0], -1)
        x = nn.relu(nn.Dense(32, kernel_init=nn.initializers.orthogonal(np.sqrt(2)))(x))
        logits = nn.Dense(self.actions, kernel_init=nn.initializers.orthogonal(0.01))(x)
        value = nn.Dense(1, kernel_init=nn.initializers.orthogonal(1.0))(x)
        return logits, value[:, 0]


def make_optimizer(cfg):
    return optax.chain(optax.clip_by_global_norm(cfg.max_grad_norm), optax.adam(cfg.lr, eps=1e-5))


def value_loss(cfg, value, mb):
    err = jnp.square(value - mb.ret)
    if cfg.clip_value:
        clipped = mb.value + jnp.clip(value - mb.value, -cfg.clip, cfg.clip)
        err = jnp.maximum(err, jnp.square(clipped - mb.ret))
    return 0.5 * err.mean()


def ppo_loss(params, apply_fn, cfg, mb):
    logits, value = apply_fn(params, mb.obs)
    logp_all = jax.nn.log_softmax(logits)
    logp = jnp.take_along_axis(logp_all, mb.action[:, None], axis=1)[:, 0]
    log_ratio = logp - mb.logp
    ratio = jnp.exp(log_ratio)
    adv = (mb.adv - mb.adv.mean()) / (mb.adv.std() + 1e-8)
    pg = -jnp.minimum(ratio * adv, jnp.clip(ratio, 1 - cfg.clip, 1 + cfg.clip) * adv).mean()
    vf = value_loss(cfg, value, mb)
    ent = -(jnp.exp(logp_all) * logp_all).sum(-1).mean()
    kl = ((ratio - 1) - log_ratio).mean()
    loss = pg + cfg.vf_coef * vf - cfg.ent_coef * ent
    return loss, {"pg": pg, "vf": vf, "ent": ent, "kl": kl}


@partial(jax.jit, static_argnames=("cfg",))
def update(params, opt_state, mb, cfg):
    net = ActorCritic(cfg.actions)
    (loss, aux), grads = jax.value_and_grad(ppo_loss, has_aux=True)(params, net.apply, cfg, mb)
    updates, opt_state = make_optimizer(cfg).update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state, loss, aux


def fake_rollout(rng, cfg, n):
    return Transition(
        obs=rng.integers(0, 255, (n, 12, 12, 3), dtype=np.uint8),
        action=rng.integers(0, cfg.actions, n).astype(np.int32),
        logp=np.full(n, -np.log(cfg.actions), np.float32),
        value=rng.standard_normal(n).astype(np.float32),
        adv=rng.standard_normal(n).astype(np.float32),
        ret=rng.standard_normal(n).astype(np.float32))


def main():
    cfg = PPOConfig()
    rng = np.random.default_rng(0)
    params = ActorCritic(cfg.actions).init(jax.random.key(0), jnp.zeros((1, 12, 12, 3), jnp.uint8))
    opt_state = make_optimizer(cfg).init(params)
    data = fake_rollout(rng, cfg, 4 * cfg.minibatch)
    for epoch in range(2):
        order = rng.permutation(len(data.ret)).reshape(-1, cfg.minibatch)
        for idx in order:
            mb = jax.tree.map(lambda a: a[idx], data)
            params, opt_state, loss, aux = update(params, opt_state, mb, cfg)
        print(f"epoch {epoch} loss {float(loss):.4f} kl {float(aux['kl']):.5f}")


if __name__ == "__main__":
    main()
