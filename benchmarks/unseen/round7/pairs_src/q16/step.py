import os, numpy as np, jax, jax.numpy as jnp
flag = os.environ["VARIANT"] == "1"
rng = np.random.default_rng(0)
r = lambda *s: (rng.standard_normal(s) * 0.1).astype(np.float32)
D, T, L = 32, 16, 2
params = dict(patch=r(48, D), head=r(D, 10), blocks=[dict(qkv=r(D, 3 * D), o=r(D, D), up=r(D, 96), down=r(96, D), g=np.ones((2, D), np.float32)) for _ in range(L)])
pos = np.arange(T)[:, None] / 100.0 ** (np.arange(D // 2) / (D // 2))
table = np.concatenate([np.sin(pos), np.cos(pos)], -1).astype(np.float32)
mom = jax.tree.map(np.zeros_like, params)


def ln(x, g):
    m = x.mean(-1, keepdims=True)
    return (x - m) / jnp.sqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-6) * g


def forward(p, tab, x):
    h = x @ p["patch"] + tab
    for b in p["blocks"]:
        q, k, v = jnp.split(ln(h, b["g"][0]) @ b["qkv"], 3, -1)
        w = jax.nn.softmax(jnp.einsum("btd,bsd->bts", q, k) / D ** 0.5, -1)
        h = h + (w @ v) @ b["o"]
        h = h + jax.nn.gelu(ln(h, b["g"][1]) @ b["up"]) @ b["down"]
    return h.mean(1) @ p["head"]


def loss_fn(p, tab, x, y):
    lp = jax.nn.log_softmax(forward(p, tab, x))
    return -jnp.take_along_axis(lp, y[:, None], 1).mean()


def step(p, m, tab, x, y):
    loss, g = jax.value_and_grad(loss_fn)(p, tab, x, y)
    m = jax.tree.map(lambda a, b: 0.9 * a + b, m, g)
    p = jax.tree.map(lambda a, b: a - 0.1 * b, p, m)
    return p, m, loss


x, y = r(4, T, 48), rng.integers(0, 10, 4).astype(np.int32)
if flag:
    low = jax.jit(lambda p, m, x, y: step(p, m, table, x, y)).lower(params, mom, x, y)
else:
    low = jax.jit(lambda p, m, tab, x, y: step(p, m, tab, x, y)).lower(params, mom, table, x, y)
open(os.environ["OUT"], "w").write(low.compiler_ir("hlo").as_hlo_text())
