"""Advantage actor-critic on fake rollouts.   VERSION=1|2 (2: after the clean-up)"""
import os

import jax
import jax.numpy as jnp

V = int(os.environ.get("VERSION", "1"))


def mlp(key, sizes):
    ks = jax.random.split(key, len(sizes) - 1)
    return [(jax.random.normal(k, (a, b)) / a ** 0.5, jnp.zeros((b,))) for k, a, b in zip(ks, sizes, sizes[1:])]


def apply(net, x):
    for w, b in net[:-1]:
        x = jax.nn.swish(x @ w + b)
    w, b = net[-1]
    return x @ w + b


def returns(rew, done, last, gamma=0.98):
    def f(c, rd):
        r, d = rd
        c = r + gamma * (1.0 - d) * c
        return c, c
    return jax.lax.scan(f, last, (rew, done), reverse=True)[1]


def policy_loss(actor, obs, act, adv):
    lp = jax.nn.log_softmax(apply(actor, obs))
    chosen = jnp.take_along_axis(lp, act[..., None], -1)[..., 0]
    ent = -jnp.sum(jnp.exp(lp) * lp, -1)
    return -jnp.mean(chosen * adv) - 0.01 * jnp.mean(ent)


def value_loss(critic, obs, ret):
    return jnp.mean((apply(critic, obs)[..., 0] - ret) ** 2)


def sgd(p, g, lr):
    return jax.tree.map(lambda a, b: a - lr * b, p, g)


def train_step_v1(actor, critic, obs, act, rew, done, last_obs):
    last = apply(critic, last_obs)[..., 0]
    ret = returns(rew, done, last)
    adv = ret - apply(critic, obs)[..., 0]
    pl, ga = jax.value_and_grad(policy_loss)(actor, obs, act, adv)
    vl, gc = jax.value_and_grad(value_loss)(critic, obs, ret)
    return sgd(actor, ga, 1e-2), sgd(critic, gc, 5e-2), pl, vl


def train_step_v2(batch, nets):
    critic, actor = nets["critic"], nets["actor"]
    values = apply(critic, batch["obs"])[..., 0]
    bootstrap = apply(critic, batch["last_obs"])[..., 0]
    target = returns(batch["rewards"], batch["dones"], bootstrap)
    vl, g_critic = jax.value_and_grad(value_loss)(critic, batch["obs"], target)
    new_critic = sgd(critic, g_critic, 5e-2)
    pl, g_actor = jax.value_and_grad(policy_loss)(actor, batch["obs"], batch["actions"], target - values)
    new_actor = sgd(actor, g_actor, 1e-2)
    return {"value": vl, "policy": pl}, {"critic": new_critic, "actor": new_actor}


def main():
    key = jax.random.key(4)
    ka, kc, key = jax.random.split(key, 3)
    actor, critic = mlp(ka, (11, 32, 32, 5)), mlp(kc, (11, 48, 24, 1))
    step = jax.jit(train_step_v1 if V == 1 else train_step_v2)
    for _ in range(4):
        key, a, b, c, d, e = jax.random.split(key, 6)
        obs = jax.random.normal(a, (10, 6, 11))
        act = jax.random.randint(b, (10, 6), 0, 5)
        rew = jax.random.normal(c, (10, 6))
        done = jax.random.bernoulli(d, 0.1, (10, 6)).astype(jnp.float32)
        last_obs = jax.random.normal(e, (6, 11))
        if V == 1:
            actor, critic, pl, vl = step(actor, critic, obs, act, rew, done, last_obs)
        else:
            out, nets = step(dict(obs=obs, actions=act, rewards=rew, dones=done, last_obs=last_obs),
                             dict(actor=actor, critic=critic))
            actor, critic, pl, vl = nets["actor"], nets["critic"], out["policy"], out["value"]
        print("%.9g %.9g" % (float(pl), float(vl)))
    print("%.9g" % sum(float(jnp.abs(x).sum()) for x in jax.tree.leaves((actor, critic))))


if __name__ == "__main__":
    main()
