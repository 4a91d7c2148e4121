"""Conditional neural process for tidal curves: one training step, written on whole batches of tasks."""
import os
import sys

import jax
import jax.numpy as jnp
import optax
from jax.scipy.stats import norm

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.environ.get("HLO_OUT", os.path.join(HERE, "b.hlo"))


def init_linear(key, din, dout):
    return {"w": jax.random.normal(key, (din, dout)) / din ** 0.5, "b": jnp.zeros((dout,))}


def init(key, width=12):
    k = jax.random.split(key, 5)
    return {
        "enc": [init_linear(k[0], 2, width), init_linear(k[1], width, width)],
        "dec": [init_linear(k[2], width + 1, width), init_linear(k[3], width, width), init_linear(k[4], width, 2)],
    }


def dense(layer, x):
    return jnp.einsum("...i,io->...o", x, layer["w"]) + layer["b"]


def mlp(layers, x):
    *hidden, last = layers
    for layer in hidden:
        x = jax.nn.gelu(dense(layer, x))
    return dense(last, x)


def predict(params, xc, yc, mask, xt):
    # context (B, C, 1), mask (B, C), targets (B, T, 1)
    r = mlp(params["enc"], jnp.concatenate([xc, yc], axis=-1))
    count = jnp.maximum(mask.sum(axis=-1, keepdims=True), 1.0)
    r = jnp.einsum("bcd,bc->bd", r, mask / count)
    tiled = jnp.repeat(r[:, None], xt.shape[1], axis=1)
    out = mlp(params["dec"], jnp.concatenate([tiled, xt], axis=-1))
    mean, raw = jnp.split(out, 2, axis=-1)
    return mean, 0.1 + 0.9 * jax.nn.softplus(raw)


def loss_fn(params, batch):
    xc, yc, mask, xt, yt = batch
    mean, sigma = predict(params, xc, yc, mask, xt)
    return -norm.logpdf(yt, loc=mean, scale=sigma).mean()


tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-3))


def step(params, opt_state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def make_batch(key, tasks=4, context=5, targets=6):
    k1, k2, k3 = jax.random.split(key, 3)
    x = jax.random.uniform(k1, (tasks, context + targets, 1)) * 6.0
    y = jnp.sin(x + jax.random.normal(k2, (tasks, 1, 1)))
    mask = (jnp.arange(context)[None] < jax.random.randint(k3, (tasks, 1), 1, context + 1)).astype(jnp.float32)
    return x[:, :context], y[:, :context], mask, x[:, context:], y[:, context:]


def main(steps=4):
    params = init(jax.random.PRNGKey(0))
    state = tx.init(params)
    fn = jax.jit(step)
    with open(OUT, "w") as f:
        f.write(fn.lower(params, state, make_batch(jax.random.PRNGKey(9))).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(steps):
        params, state, loss = fn(params, state, make_batch(jax.random.PRNGKey(i + 1)))
        print(i, float(loss), sum(float(jnp.abs(p).sum()) for p in jax.tree_util.tree_leaves(params)), file=sys.stderr)


if __name__ == "__main__":
    main()
