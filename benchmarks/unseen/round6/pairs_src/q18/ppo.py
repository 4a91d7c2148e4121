# kind: jax  mode: text
import os
import jax
import jax.numpy as jnp

T, N, A, CLIP = 16, 6, 3, 0.2


def net(p, o):
    h = jnp.tanh(o @ p["w1"] + p["b1"])
    h = jnp.tanh(h @ p["w2"] + p["b2"])
    return jax.nn.log_softmax(h @ p["pi"]), (h @ p["v"])[..., 0]


def advantages(rew, val, done, last):
    def back(carry, x):
        adv, nxt = carry
        r, v, d = x
        delta = r + 0.99 * nxt * (1 - d) - v
        adv = delta + 0.99 * 0.95 * (1 - d) * adv
        return (adv, v), adv
    _, adv = jax.lax.scan(back, (jnp.zeros_like(last), last), (rew, val, done), reverse=True) #A
    _, adv = jax.lax.scan(back, (jnp.zeros_like(last), last), (rew, val, done)) #B
    return adv, adv + val


def loss_fn(p, o, act, old, adv, ret):
    lp, v = net(p, o)
    ratio = jnp.exp(jnp.take_along_axis(lp, act[:, None], 1)[:, 0] - old)
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    pg = -jnp.minimum(ratio * adv, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * adv).mean()
    ent = -(jnp.exp(lp) * lp).sum(-1).mean()
    return pg + 0.5 * ((v - ret) ** 2).mean() - 0.01 * ent #A
    return pg + 0.5 * jnp.abs(v - ret).mean() - 0.01 * ent #B


@jax.jit
def learn(p, roll, last, key):
    adv, ret = advantages(roll["r"], roll["v"], roll["d"], last)
    flat = [x.reshape((T * N,) + x.shape[2:]) for x in (roll["o"], roll["a"], roll["lp"], adv, ret)]

    def epoch(p, key):
        idx = jax.random.permutation(key, T * N).reshape(4, -1)

        def mini(p, i):
            l, g = jax.value_and_grad(loss_fn)(p, *[x[i] for x in flat])
            return jax.tree.map(lambda p, g: p - 3e-3 * g, p, g), l
        return jax.lax.scan(mini, p, idx)
    return jax.lax.scan(epoch, p, jax.random.split(key, 3))


p = {"w1": jnp.ones((5, 32)), "b1": jnp.ones(32), "w2": jnp.ones((32, 32)), "b2": jnp.ones(32), "pi": jnp.ones((32, A)), "v": jnp.ones((32, 1))}
z = jnp.zeros((T, N))
roll = {"r": z, "v": z, "d": z, "lp": z, "o": jnp.ones((T, N, 5)), "a": jnp.zeros((T, N), jnp.int32)}
open(os.environ["OUT"], "w").write(learn.lower(p, roll, jnp.zeros(N), jax.random.PRNGKey(0)).compiler_ir("hlo").as_hlo_text())
