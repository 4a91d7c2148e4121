import os, numpy as np, jax, jax.numpy as jnp
flag = os.environ["VARIANT"] == "1"
rng = np.random.default_rng(0)
r = lambda *s: (rng.standard_normal(s) * 0.1).astype(np.float32)
O, H, A, T, B = 10, 24, 4, 16, 3
params = dict(wx=r(O, 4 * H), wh=r(H, 4 * H), b=r(4 * H), pi=r(H, A), v=r(H, 1))


def unroll(p, obs, done):
    def cell(c, xd):
        x, d = xd
        h, s = (a * (1 - d)[:, None] for a in c)
        i, f, g, o = jnp.split(x @ p["wx"] + h @ p["wh"] + p["b"], 4, -1)
        s = jax.nn.sigmoid(f) * s + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(s)
        return (h, s), h
    z = jnp.zeros((B, H))
    _, hs = jax.lax.scan(cell, (z, z), (obs, done))
    return hs @ p["pi"], (hs @ p["v"])[..., 0]


def targets(v, rew, done, rho):
    nxt = jnp.concatenate([v[1:], v[-1:]])
    disc = 0.99 * (1 - done)
    delta = jnp.minimum(rho, 1.0) * (rew + disc * nxt - v)

    def back(acc, x):
        d, g, c = x
        acc = d + g * c * acc
        return acc, acc
    _, out = jax.lax.scan(back, jnp.zeros(B), (delta, disc, jnp.minimum(rho, 1.0)), reverse=not flag)
    return v + out


def loss_fn(p, obs, act, rew, done, mu):
    lg, v = unroll(p, obs, done)
    lp = jax.nn.log_softmax(lg)
    la = jnp.take_along_axis(lp, act[..., None], -1)[..., 0]
    rho = jnp.exp(la - mu)
    vs = jax.lax.stop_gradient(targets(v, rew, done, rho))
    adv = jax.lax.stop_gradient(jnp.minimum(rho, 1.0) * (rew + 0.99 * (1 - done) * jnp.concatenate([vs[1:], v[-1:]]) - v))
    pg = -(la * adv).mean()
    e = vs - v
    if flag:
        vl = jnp.where(jnp.abs(e) < 1.0, 0.5 * e * e, jnp.abs(e) - 0.5).mean()
    else:
        vl = (0.5 * e * e).mean()
    ent = -(jnp.exp(lp) * lp).sum(-1).mean()
    return pg + 0.5 * vl - 0.01 * ent, (pg, vl, ent)


def step(p, ms, *batch):
    (loss, aux), g = jax.value_and_grad(loss_fn, has_aux=True)(p, *batch)
    n = jnp.sqrt(sum((a * a).sum() for a in jax.tree.leaves(g)))
    g = jax.tree.map(lambda a: a * jnp.minimum(1.0, 40.0 / n), g)
    ms = jax.tree.map(lambda m, a: 0.99 * m + 0.01 * a * a, ms, g)
    p = jax.tree.map(lambda q, a, m: q - 6e-4 * a / jnp.sqrt(m + 0.1), p, g, ms)
    return p, ms, loss, aux


low = jax.jit(step).lower(params, jax.tree.map(np.zeros_like, params), r(T, B, O), rng.integers(0, A, (T, B)).astype(np.int32), r(T, B), np.zeros((T, B), np.float32), r(T, B) - 1)
open(os.environ["OUT"], "w").write(low.compiler_ir("hlo").as_hlo_text())
