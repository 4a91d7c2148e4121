"""REINFORCE with a running baseline for a small inventory-control environment."""
import functools
import os
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax


class Rollout(NamedTuple):
    obs: jax.Array      # [T, B, O]
    action: jax.Array   # [T, B]
    reward: jax.Array   # [T, B]
    done: jax.Array     # [T, B]


class AgentState(NamedTuple):
    params: Any
    opt_state: Any
    baseline: Any
    updates: jax.Array


def init_params(key, sizes):
    params = []
    for k, (i, o) in zip(jax.random.split(key, len(sizes) - 1), zip(sizes[:-1], sizes[1:])):
        params.append({"w": jax.random.normal(k, (i, o)) / np.sqrt(i), "b": jnp.zeros((o,))})
    return params


def policy(params, obs):
    h = obs
    for layer in params[:-1]:
        h = jnp.tanh(h @ layer["w"].astype(h.dtype) + layer["b"].astype(h.dtype))
    last = params[-1]
    return h @ last["w"].astype(h.dtype) + last["b"].astype(h.dtype)


def discounted(reward, done, gamma):
    def back(carry, x):
        r, d = x
        carry = r + gamma * carry * (1 - d)
        return carry, carry
    _, out = jax.lax.scan(back, jnp.zeros_like(reward[0]), (reward, done), reverse=True)
    return out


def make_optimizer(lr):
    return optax.chain(optax.clip_by_global_norm(0.5), optax.adamw(lr, weight_decay=1e-4))


optimizer = make_optimizer(3e-3)


@functools.partial(jax.jit, static_argnames=("gamma", "ent_coef"))
def update(state, rollout, gamma=0.97, ent_coef=0.01):
    returns = discounted(rollout.reward, rollout.done, gamma)
    advantage = returns - state.baseline

    def loss_fn(params):
        logp = jax.nn.log_softmax(policy(params, rollout.obs))
        taken = jnp.take_along_axis(logp, rollout.action[..., None], -1)[..., 0]
        entropy = -(jnp.exp(logp) * logp).sum(-1)
        pg = -(taken * advantage).mean()
        return pg - ent_coef * entropy.mean(), entropy.mean()

    (loss, entropy), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    steps, opt_state = optimizer.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, steps)
    baseline = 0.95 * state.baseline + 0.05 * returns.astype(jnp.float32).mean()
    metrics = {"loss": loss, "entropy": entropy, "return": returns.mean()}
    return AgentState(params, opt_state, baseline, state.updates + 1), metrics


def collect(rng, T=8, B=6, O=10, A=5):
    return Rollout(
        obs=jnp.asarray(rng.normal(size=(T, B, O)), jnp.bfloat16),
        action=jnp.asarray(rng.integers(0, A, (T, B)), jnp.int32),
        reward=jnp.asarray(rng.normal(size=(T, B)), jnp.bfloat16),
        done=jnp.asarray(rng.random((T, B)) < 0.1, jnp.bfloat16),
    )


def main():
    rng = np.random.default_rng(0)
    params = init_params(jax.random.key(0), (10, 32, 32, 5))
    state = AgentState(params, optimizer.init(params), 0.0, jnp.zeros((), jnp.int32))
    out = os.environ.get("HLO_DIR")
    for i in range(4):
        batch = collect(rng)
        if out:
            text = update.lower(state, batch).compiler_ir("hlo").as_hlo_text()
            with open(os.path.join(out, f"call{i}.hlo"), "w") as f:
                f.write(text)
        state, metrics = update(state, batch)
        print(i, {k: float(v) for k, v in metrics.items()}, update._cache_size())


if __name__ == "__main__":
    main()
