"""Day-ahead load forecasting with a dilated causal conv stack (gated, residual + skip)."""
import math

import jax
import jax.numpy as jnp
import numpy as np

HIST, FEAT, CH, HORIZON = 96, 6, 16, 24
DILATIONS = (1, 2, 4)
B1, B2, EPS, WD = 0.9, 0.98, 1e-6, 1e-3


def init(key):
    def dense(k, shape, fan_in):
        w = jax.random.normal(k, shape) / math.sqrt(fan_in)
        return w.astype(jnp.bfloat16)

    keys = iter(jax.random.split(key, 32))
    params = {"inp": dense(next(keys), (FEAT, CH), FEAT), "blocks": []}
    for _ in DILATIONS:
        params["blocks"].append({
            "filt": dense(next(keys), (2, CH, CH), 2 * CH),
            "gate": dense(next(keys), (2, CH, CH), 2 * CH),
            "res": dense(next(keys), (CH, CH), CH),
            "skip": dense(next(keys), (CH, CH), CH),
        })
    params["out"] = {"w": dense(next(keys), (CH, HORIZON), CH), "b": jnp.zeros((HORIZON,), jnp.bfloat16)}
    return params


def init_moments(params):
    zeros = lambda p: jnp.zeros(p.shape, jnp.float32)
    return {"m": jax.tree.map(zeros, params), "v": jax.tree.map(zeros, params),
            "count": jnp.zeros((), jnp.int32)}


def causal(x, w, d):
    past = jnp.pad(x, ((0, 0), (d, 0), (0, 0)))[:, : x.shape[1]]
    return past @ w[0] + x @ w[1]


def forward(params, x):
    h = x.astype(jnp.bfloat16) @ params["inp"]
    skips = 0.0
    for blk, d in zip(params["blocks"], DILATIONS):
        z = jnp.tanh(causal(h, blk["filt"], d)) * jax.nn.sigmoid(causal(h, blk["gate"], d))
        skips = skips + z @ blk["skip"]
        h = h + z @ blk["res"]
    last = jax.nn.relu(skips)[:, -1]
    return last @ params["out"]["w"] + params["out"]["b"]


def pinball(params, x, y, q=0.6):
    err = y - forward(params, x).astype(jnp.float32)
    return jnp.mean(jnp.maximum(q * err, (q - 1) * err))


def adamw(params, grads, st, lr):
    count = st["count"] + 1
    m = jax.tree.map(lambda m, g: B1 * m + (1 - B1) * g, st["m"], grads)
    v = jax.tree.map(lambda v, g: B2 * v + (1 - B2) * jnp.square(g.astype(jnp.float32)), st["v"], grads)
    c1 = 1 - B1 ** count.astype(jnp.float32)
    c2 = 1 - B2 ** count.astype(jnp.float32)

    def apply(p, m, v):
        upd = (m / c1) / (jnp.sqrt(v / c2) + EPS)
        return p - lr * (upd + WD * p)

    return jax.tree.map(apply, params, m, v), {"m": m, "v": v, "count": count}


@jax.jit
def train_step(params, st, x, y, lr):
    loss, grads = jax.value_and_grad(pinball)(params, x, y)
    params, st = adamw(params, grads, st, lr)
    return params, st, loss


def batches(n, rng, size=16):
    for _ in range(n):
        t = rng.uniform(0, 24, (size, 1)) + np.arange(HIST + HORIZON)[None]
        load = np.sin(2 * np.pi * t / 24) + 0.1 * rng.standard_normal(t.shape)
        feats = np.stack([np.cos(2 * np.pi * t * k / 24) for k in range(1, FEAT)] + [load], -1)
        yield feats[:, :HIST].astype(np.float32), load[:, HIST:].astype(np.float32)


def main(steps=6):
    params = init(jax.random.PRNGKey(0))
    st = init_moments(params)
    for i, (x, y) in enumerate(batches(steps, np.random.default_rng(0))):
        lr = 2e-3 * min(1.0, (i + 1) / 4)
        params, st, loss = train_step(params, st, x, y, lr)
        print(i, f"{float(loss):.4f}")


if __name__ == "__main__":
    main()
