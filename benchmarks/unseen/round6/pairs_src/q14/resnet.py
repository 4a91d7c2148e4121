# kind: jax  mode: text
import os
import jax
import jax.numpy as jnp

dn = ("NHWC", "HWIO", "NHWC")


def conv(x, w, stride=1):
    pad = "SAME" #A
    pad = [(w.shape[0] // 2, w.shape[0] // 2), (w.shape[1] // 2, w.shape[1] // 2)] #B
    return jax.lax.conv_general_dilated(x, w, (stride, stride), pad, dimension_numbers=dn)


def norm(x, p):
    m = x.mean((0, 1, 2))
    v = ((x - m) ** 2).mean((0, 1, 2))
    return (x - m) * jax.lax.rsqrt(v + 1e-5) * p["g"] + p["b"]


def block(x, p, stride):
    h = jax.nn.relu(norm(conv(x, p["w1"], stride), p["n1"]))
    h = norm(conv(h, p["w2"]), p["n2"])
    if "ws" in p:
        x = conv(x, p["ws"], stride)
    return jax.nn.relu(x + h)


def forward(p, x):
    x = jax.nn.relu(norm(conv(x, p["stem"]), p["n"]))
    for b, s in zip(p["blocks"], (1, 2)):
        x = block(x, b, s)
    return x.mean((1, 2)) @ p["fc"]


def loss_fn(p, x, y):
    lp = jax.nn.log_softmax(forward(p, x))
    return -(lp * jax.nn.one_hot(y, 10)).sum(-1).mean()


@jax.jit
def train_step(p, m, x, y):
    loss, g = jax.value_and_grad(loss_fn)(p, x, y)
    m = jax.tree.map(lambda m, g: 0.9 * m + g, m, g)
    return jax.tree.map(lambda p, m: p - 0.1 * m, p, m), m, loss


def n(c):
    return {"g": jnp.ones(c), "b": jnp.zeros(c)}


p = {"stem": jnp.ones((3, 3, 3, 8)), "n": n(8), "fc": jnp.ones((16, 10)),
     "blocks": [{"w1": jnp.ones((3, 3, 8, 8)), "w2": jnp.ones((3, 3, 8, 8)), "n1": n(8), "n2": n(8)},
                {"w1": jnp.ones((3, 3, 8, 16)), "w2": jnp.ones((3, 3, 16, 16)), "ws": jnp.ones((1, 1, 8, 16)), "n1": n(16), "n2": n(16)}]}
x, y = jnp.ones((4, 16, 16, 3)), jnp.zeros(4, jnp.int32)
open(os.environ["OUT"], "w").write(train_step.lower(p, p, x, y).compiler_ir("hlo").as_hlo_text())
