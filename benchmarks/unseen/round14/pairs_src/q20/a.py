"""Next-event prediction for elevator maintenance logs: a two-layer rotary transformer.

Every event has a code and a time gap. Weights are updated with AdamW, and an
exponential average of the weights is kept for evaluation.
"""
import jax
import jax.numpy as jnp
import numpy as np

CODES, DIM, HEADS, DEPTH, FF, LENGTH, BATCH = 18, 16, 2, 2, 32, 16, 6
SAVE_ORDER = ("gap", "codes", "wq", "wk", "wv", "wo", "up", "down", "scale1", "scale2", "final")


def init_params(rng):
    def normal(*shape):
        return jnp.asarray(rng.normal(0, shape[-2] ** -0.5, shape), jnp.float32)

    return {
        "codes": normal(CODES, DIM),
        "gap": normal(1, DIM),
        "wq": normal(DEPTH, DIM, DIM),
        "wk": normal(DEPTH, DIM, DIM),
        "wv": normal(DEPTH, DIM, DIM),
        "wo": normal(DEPTH, DIM, DIM),
        "up": normal(DEPTH, DIM, FF),
        "down": normal(DEPTH, FF, DIM),
        "scale1": jnp.ones((DEPTH, DIM)),
        "scale2": jnp.ones((DEPTH, DIM)),
        "final": jnp.ones(DIM),
    }


def rms_norm(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def rotate(x, cos, sin):
    x1, x2 = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


def heads(x):
    b, t, _ = x.shape
    return x.reshape(b, t, HEADS, DIM // HEADS).transpose(0, 2, 1, 3)


def forward(params, codes, gaps):
    x = params["codes"][codes] + jnp.log1p(gaps)[..., None] * params["gap"][0]
    t = codes.shape[1]
    mask = jnp.tril(jnp.ones((t, t), bool))
    half = DIM // HEADS // 2
    freq = 1.0 / 100.0 ** (jnp.arange(half) / half)
    angle = jnp.arange(t)[:, None] * freq
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    for i in range(DEPTH):
        h = rms_norm(x, params["scale1"][i])
        q = rotate(heads(h @ params["wq"][i]), cos, sin)
        k = rotate(heads(h @ params["wk"][i]), cos, sin)
        v = heads(h @ params["wv"][i])
        att = jnp.einsum("bhqd,bhkd->bhqk", q, k) * (DIM // HEADS) ** -0.5
        att = jax.nn.softmax(jnp.where(mask, att, -1e9), axis=-1)
        o = jnp.einsum("bhqk,bhkd->bhqd", att, v).transpose(0, 2, 1, 3).reshape(x.shape)
        x = x + o @ params["wo"][i]
        h = rms_norm(x, params["scale2"][i])
        x = x + jax.nn.silu(h @ params["up"][i]) @ params["down"][i]
    return rms_norm(x, params["final"]) @ params["codes"].T


def loss_fn(params, codes, gaps):
    logits = forward(params, codes[:, :-1], gaps[:, :-1])
    target = codes[:, 1:]
    logp = jax.nn.log_softmax(logits)
    nll = -jnp.take_along_axis(logp, target[..., None], axis=-1)[..., 0]
    valid = (target != 0).astype(jnp.float32)
    total = jnp.sum(valid)
    hits = jnp.sum((jnp.argmax(logits, axis=-1) == target) * valid) / total
    return jnp.sum(nll * valid) / total, hits


@jax.jit
def step(params, m, v, average, t, codes, gaps):
    (loss, hits), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, codes, gaps)
    t = t + 1.0
    lr = 4e-3 * jnp.minimum(1.0, t / 8.0)
    new_p, new_m, new_v, new_avg = {}, {}, {}, {}
    for k, g in grads.items():
        new_m[k] = 0.9 * m[k] + 0.1 * g
        new_v[k] = 0.99 * v[k] + 0.01 * g * g
        m_hat = new_m[k] / (1.0 - 0.9 ** t)
        v_hat = new_v[k] / (1.0 - 0.99 ** t)
        decay = 0.01 if k.startswith("w") else 0.0
        new_p[k] = params[k] - lr * (m_hat / (jnp.sqrt(v_hat) + 1e-8) + decay * params[k])
        new_avg[k] = 0.95 * average[k] + 0.05 * new_p[k]
    saved = [tuple(d[k] for k in SAVE_ORDER) for d in (new_p, new_m, new_v, new_avg)]
    return (*saved, t, loss, hits)


def log_batch(rng):
    codes = rng.integers(1, CODES, (BATCH, LENGTH))
    codes[:, 2::3] = (codes[:, 1::3] + 1)[:, : codes[:, 2::3].shape[1]] % CODES
    gaps = rng.gamma(1.0, 20.0, (BATCH, LENGTH))
    return jnp.asarray(codes, jnp.int32), jnp.asarray(gaps, jnp.float32)


def setup(seed=13):
    rng = np.random.default_rng(seed)
    params = init_params(rng)
    zeros = jax.tree.map(jnp.zeros_like, params)
    return params, zeros, zeros, params, jnp.zeros(()), rng


def main():
    params, m, v, average, t, rng = setup()
    for i in range(24):
        *trees, t, loss, hits = step(params, m, v, average, t, *log_batch(rng))
        params, m, v, average = (dict(zip(SAVE_ORDER, tree)) for tree in trees)
        if i % 8 == 7:
            print(f"{i + 1} loss {loss:.4f} hits {hits:.3f}")


if __name__ == "__main__":
    main()
