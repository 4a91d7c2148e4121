import os
import numpy as np
import jax, jax.numpy as jnp

B, TS, TT, V, D = 4, 10, 8, 31, 24


def gru(p, xs, h0):
    def cell(h, x):
        r, z = jnp.split(jax.nn.sigmoid(x @ p["wx"] + h @ p["wh"] + p["b"]), 2, -1)
        n = jnp.tanh(x @ p["nx"] + (r * h) @ p["nh"])
        h = (1 - z) * n + z * h
        return h, h
    h, ys = jax.lax.scan(cell, h0, xs)
    return h, ys


def loss_fn(params, src, tgt, mask):
    e = jnp.swapaxes(params["emb"][src], 0, 1)
    h, mem = gru(params["enc"], e, jnp.zeros((B, D)))
    d = jnp.swapaxes(params["emb"][tgt[:, :-1]], 0, 1)
    _, ys = gru(params["dec"], d, h)
    s = jnp.einsum("tbd,de,sbe->bts", ys, params["wa"], mem)
    s = jnp.where(mask[:, None, :], s, -1e9)
    ctx = jnp.einsum("bts,sbd->tbd", jax.nn.softmax(s), mem)
    out = jnp.tanh(jnp.concatenate([ys, ctx], -1) @ params["wc"]) @ params["wo"]
    lp = jax.nn.log_softmax(jnp.swapaxes(out, 0, 1))
    return -jnp.take_along_axis(lp, tgt[:, 1:, None], -1).mean()


def rms(x):
    return jnp.sqrt(jnp.mean(x * x))


def adafactor(p, g, s, t, lr=1e-2, d=1.0):
    b2 = 1.0 - t ** -0.8
    g2 = g * g + 1e-30
    if p.ndim == 2:
        row = b2 * s["row"] + (1 - b2) * g2.mean(-1)
        col = b2 * s["col"] + (1 - b2) * g2.mean(-2)
        vhat = (row / row.mean(-1, keepdims=True))[:, None] * col[None, :]
        s = {"row": row, "col": col}
    else:
        vhat = b2 * s["v"] + (1 - b2) * g2
        s = {"v": vhat}
    u = g * jax.lax.rsqrt(vhat)
    u = u / jnp.maximum(1.0, rms(u) / d)
    return p - lr * jnp.maximum(1e-3, rms(p)) * u, s


def train_step(params, state, t, src, tgt, mask):
    loss, g = jax.value_and_grad(loss_fn)(params, src, tgt, mask)
    leaves, tree = jax.tree.flatten(params)
    out = [adafactor(p, q, s, t) for p, q, s in zip(leaves, jax.tree.leaves(g), state)]
    return tree.unflatten([o[0] for o in out]), [o[1] for o in out], t + 1, loss


def init(key):
    ks = iter(jax.random.split(key, 30))
    mat = lambda *s: jax.random.normal(next(ks), s) * 0.2
    g = lambda: dict(wx=mat(D, 2 * D), wh=mat(D, 2 * D), b=jnp.zeros(2 * D), nx=mat(D, D), nh=mat(D, D))
    return dict(emb=mat(V, D), enc=g(), dec=g(), wa=mat(D, D), wc=mat(2 * D, D), wo=mat(D, V))


if __name__ == "__main__":
    params = init(jax.random.key(0))
    state = [{"row": jnp.full(p.shape[0], 1e-4), "col": jnp.full(p.shape[1], 1e-4)} if p.ndim == 2
             else {"v": jnp.full(p.shape, 1e-4)} for p in jax.tree.leaves(params)]
    k = jax.random.split(jax.random.key(5), 3)
    src, tgt = jax.random.randint(k[0], (B, TS), 0, V), jax.random.randint(k[1], (B, TT + 1), 0, V)
    mask = jnp.arange(TS)[None] < jnp.array([10, 7, 9, 4])[:, None]
    args = (params, state, jnp.float32(5.0), src, tgt, mask)
    f = jax.jit(train_step)
    open(os.environ["HLO_OUT"], "w").write(f.lower(*args).as_text("hlo", debug_info=True))
    np.savez(os.environ["NPZ_OUT"], *[np.asarray(a) for a in jax.tree.leaves(f(*args))])
