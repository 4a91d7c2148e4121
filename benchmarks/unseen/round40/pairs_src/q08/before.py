"""Conditional neural process for tidal curves: one training step, written per task and mapped over tasks."""
import os
import sys

import jax
import jax.numpy as jnp
import optax

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.environ.get("HLO_OUT", os.path.join(HERE, "a.hlo"))


def init_linear(key, din, dout):
    return {"w": jax.random.normal(key, (din, dout)) / din ** 0.5, "b": jnp.zeros((dout,))}


def init(key, width=12):
    k = jax.random.split(key, 5)
    return {
        "enc": [init_linear(k[0], 2, width), init_linear(k[1], width, width)],
        "dec": [init_linear(k[2], width + 1, width), init_linear(k[3], width, width), init_linear(k[4], width, 2)],
    }


def mlp(layers, x):
    for layer in layers[:-1]:
        x = jax.nn.gelu(x @ layer["w"] + layer["b"])
    return x @ layers[-1]["w"] + layers[-1]["b"]


def predict(params, xc, yc, mask, xt):
    # one task: context (C, 1), mask (C,), targets (T, 1)
    r = mlp(params["enc"], jnp.concatenate([xc, yc], axis=-1))
    r = jnp.sum(r * mask[:, None], axis=0) / jnp.maximum(jnp.sum(mask), 1.0)
    tiled = jnp.broadcast_to(r, (xt.shape[0], r.shape[0]))
    out = mlp(params["dec"], jnp.concatenate([tiled, xt], axis=-1))
    mean, raw = out[:, 0], out[:, 1]
    return mean, 0.1 + 0.9 * jax.nn.softplus(raw)


def task_nll(params, xc, yc, mask, xt, yt):
    mean, sigma = predict(params, xc, yc, mask, xt)
    z = (yt[:, 0] - mean) / sigma
    return jnp.mean(0.5 * z ** 2 + jnp.log(sigma) + 0.5 * jnp.log(2.0 * jnp.pi))


def loss_fn(params, batch):
    losses = jax.vmap(task_nll, in_axes=(None, 0, 0, 0, 0, 0))(params, *batch)
    return jnp.mean(losses)


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
