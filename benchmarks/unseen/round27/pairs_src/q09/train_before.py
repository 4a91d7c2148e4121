"""Denoising diffusion on 2-D point sets (12 points per set), eps-prediction with a tiny attention net."""
import functools

import jax
import jax.numpy as jnp
import numpy as np

T = 50
D = 16
HEADS = 2
LR, B1, B2, EPS, EMA = 2e-3, 0.9, 0.999, 1e-8, 0.995


def init_params(key):
    k = jax.random.split(key, 7)
    n = lambda kk, *s: jax.random.normal(kk, s) / np.sqrt(s[0])
    return {
        "w_in": n(k[0], 2, D),
        "b_in": jnp.zeros(D),
        "w_t": n(k[1], D, D),
        "wq": n(k[2], D, D),
        "wk": n(k[3], D, D),
        "wv": n(k[4], D, D),
        "ln_g": jnp.ones(D),
        "ln_b": jnp.zeros(D),
        "w_mid": n(k[5], D, 2 * D),
        "w_out": n(k[6], 2 * D, 2),
        "b_out": jnp.zeros(2),
    }


def alpha_bar():
    beta = jnp.linspace(1e-4, 0.05, T)
    return jnp.cumprod(1.0 - beta)


def time_features(t):
    freq = jnp.exp(-jnp.log(1000.0) * jnp.arange(D // 2) / (D // 2))
    ang = t[:, None] * freq[None, :]
    return jnp.concatenate([jnp.sin(ang), jnp.cos(ang)], axis=-1)


def layer_norm(x, g, b):
    mu = jnp.mean(x, axis=-1, keepdims=True)
    var = jnp.mean((x - mu) ** 2, axis=-1, keepdims=True)
    return (x - mu) / jnp.sqrt(var + 1e-5) * g + b


def denoise(p, x, t):
    h = x @ p["w_in"] + p["b_in"] + (time_features(t) @ p["w_t"])[:, None, :]
    z = layer_norm(h, p["ln_g"], p["ln_b"])
    B, N, _ = z.shape
    split = lambda y: y.reshape(B, N, HEADS, D // HEADS).transpose(0, 2, 1, 3)
    q, k, v = split(z @ p["wq"]), split(z @ p["wk"]), split(z @ p["wv"])
    s = jnp.matmul(q, k.transpose(0, 1, 3, 2)) / jnp.sqrt(float(D // HEADS))
    a = jax.nn.softmax(s, axis=-1)
    h = h + jnp.matmul(a, v).transpose(0, 2, 1, 3).reshape(B, N, D)
    m = h @ p["w_mid"]
    m = m * jax.nn.sigmoid(m)
    return m @ p["w_out"] + p["b_out"]


def loss_fn(p, key, x0):
    kt, ke = jax.random.split(key)
    t = jax.random.randint(kt, (x0.shape[0],), 0, T)
    eps = jax.random.normal(ke, x0.shape)
    ab = alpha_bar()[t][:, None, None]
    xt = jnp.sqrt(ab) * x0 + jnp.sqrt(1.0 - ab) * eps
    pred = denoise(p, xt, t.astype(jnp.float32))
    return jnp.mean((pred - eps) ** 2)


@functools.partial(jax.jit)
def train_step(p, mu, nu, ema, count, key, x0):
    key, sub = jax.random.split(key)
    loss, g = jax.value_and_grad(loss_fn)(p, sub, x0)
    count = count + 1
    c1 = 1.0 - B1 ** count
    c2 = 1.0 - B2 ** count
    mu = jax.tree.map(lambda m, gg: B1 * m + (1.0 - B1) * gg, mu, g)
    nu = jax.tree.map(lambda v, gg: B2 * v + (1.0 - B2) * gg * gg, nu, g)
    p = jax.tree.map(lambda w, m, v: w - LR * (m / c1) / (jnp.sqrt(v / c2) + EPS), p, mu, nu)
    ema = jax.tree.map(lambda e, w: EMA * e + (1.0 - EMA) * w, ema, p)
    return p, mu, nu, ema, count, key, loss


def ring(rs, n):
    th = rs.uniform(0, 2 * np.pi, (n, 12))
    r = 1 + 0.05 * rs.randn(n, 12)
    return np.stack([r * np.cos(th), r * np.sin(th)], -1).astype(np.float32)


if __name__ == "__main__":
    p = init_params(jax.random.PRNGKey(0))
    mu = jax.tree.map(jnp.zeros_like, p)
    nu = jax.tree.map(jnp.zeros_like, p)
    ema = p
    count, key = jnp.zeros((), jnp.float32), jax.random.PRNGKey(1)
    rs = np.random.RandomState(0)
    for i in range(4):
        p, mu, nu, ema, count, key, loss = train_step(p, mu, nu, ema, count, key, ring(rs, 6))
        print(i, float(loss))
