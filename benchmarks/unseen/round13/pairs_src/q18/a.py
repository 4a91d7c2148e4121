"""MLP-Mixer on synthetic patches, SGD with Nesterov momentum."""
import sys

import jax
import jax.numpy as jnp

PATCHES, PDIM, DIM, CLASSES, DEPTH = 9, 12, 16, 5, 2


def linear(key, i, o):
    return {"kernel": jax.random.normal(key, (i, o)) / jnp.sqrt(i), "bias": jnp.zeros(o)}


def init(key):
    keys = jax.random.split(key, 2 + 4 * DEPTH)
    blocks = []
    for d in range(DEPTH):
        k = keys[2 + 4 * d:6 + 4 * d]
        blocks.append({
            "token1": linear(k[0], PATCHES, 2 * PATCHES), "token2": linear(k[1], 2 * PATCHES, PATCHES),
            "chan1": linear(k[2], DIM, 2 * DIM), "chan2": linear(k[3], 2 * DIM, DIM),
            "scale1": jnp.ones(DIM), "scale2": jnp.ones(DIM),
        })
    return {"stem": linear(keys[0], PDIM, DIM), "blocks": blocks, "head": linear(keys[1], DIM, CLASSES)}


def apply_linear(p, x):
    return jnp.dot(x, p["kernel"]) + p["bias"]


def layer_norm(x, scale):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(var + 1e-5) * scale


def mlp(p1, p2, x):
    return apply_linear(p2, jax.nn.silu(apply_linear(p1, x)))


def model(params, x):
    x = apply_linear(params["stem"], x)
    for blk in params["blocks"]:
        y = layer_norm(x, blk["scale1"]).swapaxes(1, 2)
        x = x + mlp(blk["token1"], blk["token2"], y).swapaxes(1, 2)
        x = x + mlp(blk["chan1"], blk["chan2"], layer_norm(x, blk["scale2"]))
    return apply_linear(params["head"], x.mean(axis=1))


def loss_fn(params, images, labels):
    logp = jax.nn.log_softmax(model(params, images))
    return -jnp.mean(jnp.sum(jax.nn.one_hot(labels, CLASSES) * logp, axis=-1))


def sgd(params, momentum, grads, lr=0.05, mu=0.9):
    momentum = jax.tree.map(lambda m, g: mu * m + g, momentum, grads)
    params = jax.tree.map(lambda p, m, g: p - lr * (g + mu * m), params, momentum, grads)
    return params, momentum


@jax.jit
def train_step(params, momentum, images, labels):
    loss, grads = jax.value_and_grad(loss_fn)(params, images, labels)
    params, momentum = sgd(params, momentum, grads)
    return params, momentum, loss


def data(key, n=16):
    k1, k2 = jax.random.split(key)
    labels = jax.random.randint(k1, (n,), 0, CLASSES)
    return jax.random.normal(k2, (n, PATCHES, PDIM)) + labels[:, None, None] * 0.2, labels


if __name__ == "__main__":
    key = jax.random.PRNGKey(4)
    params = init(key)
    momentum = jax.tree.map(jnp.zeros_like, params)
    images, labels = data(key)
    if len(sys.argv) > 1:
        hlo = train_step.lower(params, momentum, images, labels).compiler_ir("hlo")
        open(sys.argv[1], "w").write(hlo.get_hlo_module().to_string())
    for i in range(5):
        params, momentum, loss = train_step(params, momentum, *data(jax.random.fold_in(key, i)))
    print(loss)
