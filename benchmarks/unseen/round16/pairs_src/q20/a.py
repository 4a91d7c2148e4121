"""Contextual bandit for ad placement: actor and reward model trained side by side."""
import jax
import jax.numpy as jnp
import numpy as np

FEATURES, ARMS, H = 10, 4, 16


def mlp_init(key, sizes):
    keys = jax.random.split(key, len(sizes) - 1)
    return [(jax.random.normal(k, (i, o)) * (2.0 / i) ** 0.5, jnp.zeros((o,)))
            for k, i, o in zip(keys, sizes[:-1], sizes[1:])]


def mlp(params, x):
    for w, b in params[:-1]:
        x = jnp.maximum(x @ w + b, 0.0)
    w, b = params[-1]
    return x @ w + b


def log_policy(actor, ctx):
    z = mlp(actor, ctx)
    z = z - jax.lax.stop_gradient(z.max(-1, keepdims=True))
    return z - jnp.log(jnp.exp(z).sum(-1, keepdims=True))


def actor_loss(actor, ctx, arm, weight):
    logp = log_policy(actor, ctx)
    chosen = (logp * jax.nn.one_hot(arm, ARMS)).sum(-1)
    entropy = -(jnp.exp(logp) * logp).sum(-1)
    return -(weight * chosen).mean() - 0.01 * entropy.mean()


def reward_loss(model, ctx, arm, reward):
    est = (mlp(model, ctx) * jax.nn.one_hot(arm, ARMS)).sum(-1)
    return ((est - reward) ** 2).mean()


@jax.jit
def train(actor, model, batch):
    ctx, arm, reward, prob = batch
    r_loss, r_grad = jax.value_and_grad(reward_loss)(model, ctx, arm, reward)
    weight = (reward - reward.mean()) / jnp.maximum(prob, 0.05)
    a_loss, a_grad = jax.value_and_grad(actor_loss)(actor, ctx, arm, weight)
    model = jax.tree.map(lambda p, g: p - 0.05 * g, model, r_grad)
    actor = jax.tree.map(lambda p, g: p - 0.02 * g, actor, a_grad)
    return actor, model, {"actor": a_loss, "reward": r_loss}


def logged(rng, n=24):
    ctx = rng.normal(size=(n, FEATURES)).astype(np.float32)
    arm = rng.integers(0, ARMS, n).astype(np.int32)
    reward = (ctx[np.arange(n), arm] > 0).astype(np.float32)
    return ctx, arm, reward, np.full(n, 1 / ARMS, np.float32)


def main():
    rng = np.random.default_rng(3)
    actor = mlp_init(jax.random.PRNGKey(0), [FEATURES, H, H, ARMS])
    model = mlp_init(jax.random.PRNGKey(1), [FEATURES, 2 * H, ARMS])
    for it in range(60):
        actor, model, losses = train(actor, model, logged(rng))
        if it % 20 == 19:
            print(it, {k: float(v) for k, v in losses.items()})


if __name__ == "__main__":
    main()
