import os, numpy as np, jax, jax.numpy as jnp
flag = os.environ["VARIANT"] == "1"
rng = np.random.default_rng(0)
r = lambda *s: (rng.standard_normal(s) * 0.1).astype(np.float32)
C = 12
params = dict(inp=r(3, 3, 3, C), out=r(C, 5), blocks=[dict(a=r(3, 3, C, C), b=r(1, 1, C, 4 * C), c=r(1, 1, 4 * C, C), g=np.ones(C, np.float32), s=r(C)) for _ in range(3)])
dn = ("NHWC", "HWIO", "NHWC")


def conv(x, w, groups=1):
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=dn, feature_group_count=groups)


def block(b, x):
    h = conv(x, b["a"])
    mu = h.mean((1, 2, 3), keepdims=True)
    h = (h - mu) * jax.lax.rsqrt(h.var((1, 2, 3), keepdims=True) + 1e-5) * b["g"] + b["s"]
    h = jax.nn.gelu(conv(h, b["b"]))
    return x + conv(h, b["c"])


run = [block, block, jax.checkpoint(block) if flag else block]


def loss_fn(p, x, y):
    h = conv(x, p["inp"])
    for f, b in zip(run, p["blocks"]):
        h = f(b, h)
    lg = h.mean((1, 2)) @ p["out"]
    return (jax.nn.logsumexp(lg, -1) - jnp.take_along_axis(lg, y[:, None], 1)[:, 0]).mean()


def step(p, m, v, t, x, y):
    loss, g = jax.value_and_grad(loss_fn)(p, x, y)
    m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
    v = jax.tree.map(lambda a, b: 0.99 * a + 0.01 * b * b, v, g)
    c1, c2 = 1 - 0.9 ** t, 1 - 0.99 ** t
    p = jax.tree.map(lambda q, a, b: q - 1e-3 * (a / c1) / (jnp.sqrt(b / c2) + 1e-8), p, m, v)
    return p, m, v, t + 1, loss


z = jax.tree.map(np.zeros_like, params)
low = jax.jit(step).lower(params, z, z, np.float32(1), r(2, 16, 16, 3), rng.integers(0, 5, 2).astype(np.int32))
open(os.environ["OUT"], "w").write(low.compiler_ir("hlo").as_hlo_text())
