import functools, os
import numpy as np
import jax, jax.numpy as jnp
from jax import lax

B, X, D, C = 8, 12, 20, 4
TOL, MAX_ITER = 1e-4, 25


def cell(w, x, z):
    h = jnp.tanh(z @ w["wz"] + x @ w["wx"] + w["b"])
    return h / (1.0 + 0.1 * jnp.linalg.norm(h, axis=-1, keepdims=True))


def solve(f, z0):
    def cond(s):
        i, z, err = s
        return (err > TOL) & (i < MAX_ITER)

    def body(s):
        i, z, _ = s
        zn = f(z)
        return i + 1, zn, jnp.linalg.norm(zn - z) / (1e-8 + jnp.linalg.norm(zn))

    i, z, err = lax.while_loop(cond, body, (jnp.int32(0), z0, jnp.float32(jnp.inf)))
    return z, i


@jax.custom_vjp
def deq(w, x):
    return solve(lambda z: cell(w, x, z), jnp.zeros((x.shape[0], D)))[0]


def deq_fwd(w, x):
    z = deq(w, x)
    return z, (w, x, z)


def deq_bwd(res, g):
    w, x, z = res
    _, vjp_z = jax.vjp(lambda q: cell(w, x, q), z)
    u, _ = solve(lambda u: g + vjp_z(u)[0], jnp.zeros_like(g))
    _, vjp_wx = jax.vjp(lambda a, b: cell(a, b, z), w, x)
    return vjp_wx(u)


deq.defvjp(deq_fwd, deq_bwd)


def loss_fn(params, x, y):
    h = jax.nn.silu(x @ params["inp"])
    z = deq(params["core"], h)
    logits = z @ params["out"]
    margin = logits - jnp.take_along_axis(logits, y[:, None], 1) + 1.0 - jax.nn.one_hot(y, C)
    return jnp.maximum(margin, 0.0).sum(-1).mean()


def train_step(params, mom, x, y):
    loss, g = jax.value_and_grad(loss_fn)(params, x, y)
    mom = jax.tree.map(lambda m, a: 0.9 * m + a, mom, g)
    params = jax.tree.map(lambda p, m, a: p - 0.01 * (a + 0.9 * m), params, mom, g)
    return params, mom, loss


if __name__ == "__main__":
    ks = jax.random.split(jax.random.key(0), 8)
    n = lambda i, *s: jax.random.normal(ks[i], s) * 0.2
    params = {"inp": n(0, X, D), "core": {"wz": n(1, D, D), "wx": n(2, D, D), "b": jnp.zeros(D)}, "out": n(3, D, C)}
    mom = jax.tree.map(lambda a: 0.01 * a, params)
    x, y = jax.random.normal(ks[4], (B, X)), jax.random.randint(ks[5], (B,), 0, C)
    f = jax.jit(train_step)
    args = (params, mom, x, y)
    open(os.environ["HLO_OUT"], "w").write(f.lower(*args).compiler_ir("hlo").as_hlo_text())
    np.savez(os.environ["NPZ_OUT"], *[np.asarray(a) for a in jax.tree.leaves(f(*args))])
