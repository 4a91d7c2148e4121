"""Actor-critic update on synthetic rollouts."""
import sys

import jax
import jax.numpy as jnp
import numpy as np

OBS, ACT, HID, B, T = 12, 4, 32, 6, 10


def init(key):
    k = jax.random.split(key, 6)
    lin = lambda k, i, o: {"kernel": jax.random.normal(k, (i, o)) * i ** -0.5, "offset": jnp.zeros(o)}
    return {
        "shared_mlp": {"hidden_0": lin(k[0], OBS, HID), "hidden_1": lin(k[1], HID, HID)},
        "actor": {"dense": lin(k[2], HID, HID // 2), "a_head": lin(k[3], HID // 2, ACT)},
        "critic": {"dense": lin(k[4], HID, HID // 2), "a_head": lin(k[5], HID // 2, 1)},
    }


def linear(p, x):
    return jnp.dot(x, p["kernel"]) + p["offset"]


def network(params, obs):
    h = jnp.tanh(linear(params["shared_mlp"]["hidden_0"], obs))
    h = jnp.tanh(linear(params["shared_mlp"]["hidden_1"], h))
    logits = linear(params["actor"]["a_head"], jnp.tanh(linear(params["actor"]["dense"], h)))
    value = linear(params["critic"]["a_head"], jnp.tanh(linear(params["critic"]["dense"], h)))[..., 0]
    return logits, value


def gae(reward, value, last, gamma=0.99, lam=0.95):
    nxt = jnp.concatenate([value[1:], last[None]])
    delta = reward + gamma * nxt - value

    def back(acc, d):
        acc = d + gamma * lam * acc
        return acc, acc

    _, adv = jax.lax.scan(back, jnp.zeros_like(last), delta, reverse=True)
    return adv, adv + value


def surrogate(params, batch):
    logits, value = network(params, batch["states"])
    logp = jax.nn.log_softmax(logits)
    lp = jnp.take_along_axis(logp, batch["taken"][..., None], -1)[..., 0]
    adv, ret = gae(batch["gain"], batch["old_value"], batch["last_value"])
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    ratio = jnp.exp(lp - batch["old_logp"])
    pg = -jnp.minimum(ratio * adv, jnp.clip(ratio, 0.8, 1.2) * adv).mean()
    vf = 0.5 * jnp.square(value - ret).mean()
    ent = -(jnp.exp(logp) * logp).sum(-1).mean()
    return pg + 0.5 * vf - 0.01 * ent, {"pg": pg, "vf": vf, "ent": ent}


def adam(params, grads, opt, lr=3e-4, b1=0.9, b2=0.999):
    t = opt["t"] + 1
    mu = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, opt["first_moment"], grads)
    nu = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, opt["second_moment"], grads)
    c1, c2 = 1 - b1 ** t, 1 - b2 ** t
    params = jax.tree.map(lambda p, m, v: p - lr * (m / c1) / (jnp.sqrt(v / c2) + 1e-5), params, mu, nu)
    return params, {"t": t, "first_moment": mu, "second_moment": nu}


@jax.jit
def ppo_epoch(batch, opt, params):
    (loss, aux), grads = jax.value_and_grad(surrogate, has_aux=True)(params, batch)
    params, opt = adam(params, grads, opt)
    return loss, aux, opt, params


def rollout(rng):
    f = lambda *s: rng.standard_normal(s).astype(np.float32)
    return {"states": f(T, B, OBS), "taken": rng.integers(0, ACT, (T, B)).astype(np.int32), "gain": f(T, B),
            "old_value": f(T, B), "last_value": f(B), "old_logp": -np.abs(f(T, B)) - 0.5}


def main():
    rng = np.random.default_rng(1)
    params = init(jax.random.PRNGKey(0))
    zeros = lambda: jax.tree.map(jnp.zeros_like, params)
    opt = {"t": jnp.zeros(()), "first_moment": zeros(), "second_moment": zeros()}
    for i in range(15):
        batch = rollout(rng)
        loss, aux, opt, params = ppo_epoch(batch, opt, params)
        if i % 5 == 0:
            print(f"update {i} loss {loss:.4f} " + " ".join(f"{k} {v:.3f}" for k, v in aux.items()))
    if len(sys.argv) > 1:
        open(sys.argv[1], "w").write(ppo_epoch.lower(batch, opt, params).as_text("hlo", debug_info=True))


if __name__ == "__main__":
    main()
