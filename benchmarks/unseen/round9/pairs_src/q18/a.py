"""Actor-critic update on synthetic rollouts."""
import sys

import jax
import jax.numpy as jnp
import numpy as np

OBS, ACT, HID, B, T = 12, 4, 32, 6, 10


def init(key):
    k = jax.random.split(key, 6)
    lin = lambda k, i, o: {"w": jax.random.normal(k, (i, o)) * i ** -0.5, "b": jnp.zeros(o)}
    return {
        "torso": {"fc1": lin(k[0], OBS, HID), "fc2": lin(k[1], HID, HID)},
        "policy": {"fc": lin(k[2], HID, HID // 2), "out": lin(k[3], HID // 2, ACT)},
        "value": {"fc": lin(k[4], HID, HID // 2), "out": lin(k[5], HID // 2, 1)},
    }


def linear(p, x):
    return jnp.dot(x, p["w"]) + p["b"]


def network(params, obs):
    h = jnp.tanh(linear(params["torso"]["fc1"], obs))
    h = jnp.tanh(linear(params["torso"]["fc2"], h))
    logits = linear(params["policy"]["out"], jnp.tanh(linear(params["policy"]["fc"], h)))
    value = linear(params["value"]["out"], jnp.tanh(linear(params["value"]["fc"], h)))[..., 0]
    return logits, value


def gae(reward, value, last, gamma=0.99, lam=0.95):
    nxt = jnp.concatenate([value[1:], last[None]])
    delta = reward + gamma * nxt - value

    def back(acc, d):
        acc = d + gamma * lam * acc
        return acc, acc

    _, adv = jax.lax.scan(back, jnp.zeros_like(last), delta, reverse=True)
    return adv, adv + value


def ppo_loss(params, batch):
    logits, value = network(params, batch["obs"])
    logp = jax.nn.log_softmax(logits)
    lp = jnp.take_along_axis(logp, batch["action"][..., None], -1)[..., 0]
    adv, ret = gae(batch["reward"], batch["old_value"], batch["last_value"])
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    ratio = jnp.exp(lp - batch["old_logp"])
    pg = -jnp.minimum(ratio * adv, jnp.clip(ratio, 0.8, 1.2) * adv).mean()
    vf = 0.5 * jnp.square(value - ret).mean()
    ent = -(jnp.exp(logp) * logp).sum(-1).mean()
    return pg + 0.5 * vf - 0.01 * ent, {"pg": pg, "vf": vf, "ent": ent}


def adam(params, grads, opt, lr=3e-4, b1=0.9, b2=0.999):
    t = opt["count"] + 1
    mu = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, opt["mu"], grads)
    nu = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, opt["nu"], grads)
    c1, c2 = 1 - b1 ** t, 1 - b2 ** t
    params = jax.tree.map(lambda p, m, v: p - lr * (m / c1) / (jnp.sqrt(v / c2) + 1e-5), params, mu, nu)
    return params, {"count": t, "mu": mu, "nu": nu}


@jax.jit
def learn(params, opt, batch):
    (loss, aux), grads = jax.value_and_grad(ppo_loss, has_aux=True)(params, batch)
    params, opt = adam(params, grads, opt)
    return params, opt, loss, aux


def rollout(rng):
    f = lambda *s: rng.standard_normal(s).astype(np.float32)
    return {"obs": f(T, B, OBS), "action": rng.integers(0, ACT, (T, B)).astype(np.int32), "reward": f(T, B),
            "old_value": f(T, B), "last_value": f(B), "old_logp": -np.abs(f(T, B)) - 0.5}


def main():
    rng = np.random.default_rng(1)
    params = init(jax.random.PRNGKey(0))
    zeros = lambda: jax.tree.map(jnp.zeros_like, params)
    opt = {"count": jnp.zeros(()), "mu": zeros(), "nu": zeros()}
    for i in range(15):
        batch = rollout(rng)
        params, opt, loss, aux = learn(params, opt, batch)
        if i % 5 == 0:
            print(f"update {i} loss {loss:.4f} " + " ".join(f"{k} {v:.3f}" for k, v in aux.items()))
    if len(sys.argv) > 1:
        open(sys.argv[1], "w").write(learn.lower(params, opt, batch).as_text("hlo", debug_info=True))


if __name__ == "__main__":
    main()
