"""Off-policy learner for a newsletter recommender; agent state as one registered pytree."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass
from dataclasses import dataclass


@register_dataclass
@dataclass
class Affine:
    offset: jax.Array
    matrix: jax.Array

    def __call__(self, x):
        return x @ self.matrix + self.offset


@register_dataclass
@dataclass
class Agent:
    value: tuple
    policy: tuple


@register_dataclass
@dataclass
class Log:
    propensity: jax.Array
    click: jax.Array
    choice: jax.Array
    user: jax.Array


def forward(layers, x):
    *body, last = layers
    for layer in body:
        x = jnp.maximum(layer(x), 0.0)
    return last(x)


def stack(seed, widths):
    keys = jax.random.split(jax.random.PRNGKey(seed), len(widths) - 1)
    return tuple(Affine(jnp.zeros((o,)), jax.random.normal(k, (i, o)) * (2.0 / i) ** 0.5)
                 for k, i, o in zip(keys, widths[:-1], widths[1:]))


class Learner:
    def __init__(self, options=4, policy_rate=0.02, value_rate=0.05, bonus=0.01):
        self.options, self.policy_rate, self.value_rate, self.bonus = options, policy_rate, value_rate, bonus
        self.improve = jax.jit(self._improve)

    def value_error(self, value, log):
        guess = (forward(value, log.user) * jax.nn.one_hot(log.choice, self.options)).sum(-1)
        return ((guess - log.click) ** 2).mean()

    def policy_objective(self, policy, log, advantage):
        logits = forward(policy, log.user)
        logits = logits - jax.lax.stop_gradient(logits.max(-1, keepdims=True))
        lp = logits - jnp.log(jnp.exp(logits).sum(-1, keepdims=True))
        picked = (lp * jax.nn.one_hot(log.choice, self.options)).sum(-1)
        spread = -(jnp.exp(lp) * lp).sum(-1)
        return -(advantage * picked).mean() - self.bonus * spread.mean()

    def _improve(self, log, agent):
        with jax.named_scope("policy"):
            advantage = (log.click - log.click.mean()) / jnp.maximum(log.propensity, 0.05)
            p_loss, p_grad = jax.value_and_grad(self.policy_objective)(agent.policy, log, advantage)
            policy = jax.tree.map(lambda p, g: p - self.policy_rate * g, agent.policy, p_grad)
        with jax.named_scope("value"):
            v_loss, v_grad = jax.value_and_grad(self.value_error)(agent.value, log)
            value = jax.tree.map(lambda p, g: p - self.value_rate * g, agent.value, v_grad)
        return (v_loss, p_loss), Agent(value, policy)


def impressions(rng, n=24, dim=10, options=4):
    user = rng.normal(size=(n, dim)).astype(np.float32)
    choice = rng.integers(0, options, n).astype(np.int32)
    click = (user[np.arange(n), choice] > 0).astype(np.float32)
    return Log(np.full(n, 1 / options, np.float32), click, choice, user)


if __name__ == "__main__":
    source = np.random.default_rng(3)
    agent = Agent(value=stack(1, [10, 32, 4]), policy=stack(0, [10, 16, 16, 4]))
    learner = Learner()
    for it in range(60):
        (v, p), agent = learner.improve(impressions(source), agent)
        if it % 20 == 19:
            print(it, "policy", float(p), "value", float(v))
