import os
import numpy as np
import jax, jax.numpy as jnp
from jax import lax

B, C = 6, 10


def conv(x, w, s=1):
    return lax.conv_general_dilated(x, w, (s, s), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def dropout(key, x, rate):
    keep = jax.random.bernoulli(key, 1 - rate, x.shape)
    return jnp.where(keep, x / (1 - rate), 0.0)


def act(x):
    return jax.nn.gelu(x, approximate=False)


def convnext(x, p):
    h = lax.conv_general_dilated(x, p["dw"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"),
                                 feature_group_count=x.shape[-1])
    m = h.mean(-1, keepdims=True)
    h = (h - m) * lax.rsqrt(h.var(-1, keepdims=True) + 1e-6) * p["g"]
    return x + p["ls"] * (act(h @ p["w1"] + p["b1"]) @ p["w2"])


def forward(params, x, key):
    k1 = k2 = key
    x = conv(x, params["stem"], 2)
    x = convnext(x, params["b1"])
    x = conv(x, params["down"], 2)
    x = convnext(x, params["b2"])
    x = dropout(k1, x.mean((1, 2)), 0.2)
    x = jnp.tanh(x @ params["fc1"])
    x = dropout(k2, x, 0.5)
    return x @ params["fc2"]


def loss_fn(params, x, y, key):
    lp = jax.nn.log_softmax(forward(params, x, key))
    tgt = 0.9 * jax.nn.one_hot(y, C) + 0.1 / C
    return -(tgt * lp).sum(-1).mean()


def clip_by_global_norm(g, c):
    n = jnp.sqrt(sum(jnp.sum(a * a) for a in jax.tree.leaves(g)))
    return jax.tree.map(lambda a: a * jnp.minimum(1.0, c / (n + 1e-6)), g)


def train_step(params, mom, x, y, key):
    loss, g = jax.value_and_grad(loss_fn)(params, x, y, key)
    g = clip_by_global_norm(g, 1.0)
    mom = jax.tree.map(lambda m, a: 0.9 * m + a, mom, g)
    params = jax.tree.map(lambda p, m: p - 0.05 * m, params, mom)
    return params, mom, loss


def init(key):
    ks = iter(jax.random.split(key, 30))
    mat = lambda *s: jax.random.normal(next(ks), s) * 0.2
    blk = lambda c: dict(dw=mat(5, 5, 1, c), g=jnp.ones(c), w1=mat(c, 4 * c), b1=jnp.zeros(4 * c), w2=mat(4 * c, c), ls=jnp.full(c, 0.1))
    return dict(stem=mat(3, 3, 3, 8), b1=blk(8), down=mat(3, 3, 8, 16), b2=blk(16), fc1=mat(16, 16), fc2=mat(16, C))


if __name__ == "__main__":
    params = init(jax.random.key(0))
    mom = jax.tree.map(lambda a: a * 0.01, params)
    x = jax.random.normal(jax.random.key(1), (B, 16, 16, 3))
    y = jax.random.randint(jax.random.key(2), (B,), 0, C)
    args = (params, mom, x, y, jax.random.key(3))
    f = jax.jit(train_step)
    open(os.environ["HLO_OUT"], "w").write(f.lower(*args).as_text("hlo", debug_info=True))
    np.savez(os.environ["NPZ_OUT"], *[np.asarray(a) for a in jax.tree.leaves(f(*args))])
