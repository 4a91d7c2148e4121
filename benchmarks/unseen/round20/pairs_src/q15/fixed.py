"""Char MLP language model in plain JAX, momentum kept in bfloat16."""
import sys
import jax
import jax.numpy as jnp
import numpy as np

V, C, D, H = 64, 8, 16, 64


def init(key):
    k = jax.random.split(key, 3)
    return {
        "emb": jax.random.normal(k[0], (V, D)) * 0.1,
        "w1": jax.random.normal(k[1], (C * D, H)) * 0.05,
        "b1": jnp.zeros((H,)),
        "w2": jax.random.normal(k[2], (H, V)) * 0.05,
        "b2": jnp.zeros((V,)),
    }


def loss_fn(params, ctx, nxt):
    x = params["emb"][ctx].reshape(ctx.shape[0], -1)
    h = jnp.tanh(x @ params["w1"] + params["b1"])
    logp = jax.nn.log_softmax(h @ params["w2"] + params["b2"])
    return -jnp.take_along_axis(logp, nxt[:, None], axis=1).mean()


@jax.jit
def train_step(params, mom, ctx, nxt):
    loss, grads = jax.value_and_grad(loss_fn)(params, ctx, nxt)
    gnorm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
    grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, 1.0 / (gnorm + 1e-6)), grads)
    mom = jax.tree.map(lambda m, g: (0.9 * m + g).astype(m.dtype), mom, grads)
    params = jax.tree.map(lambda p, m: p - 0.05 * m, params, mom)
    return params, mom, loss


def main(dump=None):
    params = init(jax.random.PRNGKey(0))
    mom = jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.bfloat16), params)
    rng = np.random.default_rng(0)
    for step in range(4):
        ctx = rng.integers(0, V, (32, C))
        nxt = rng.integers(0, V, (32,))
        if dump:
            text = train_step.lower(params, mom, ctx, nxt).compiler_ir("hlo").as_hlo_text()
            open(f"{dump}.{step}", "w").write(text)
        params, mom, loss = train_step(params, mom, ctx, nxt)


main(*sys.argv[1:])
