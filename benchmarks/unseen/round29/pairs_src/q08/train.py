"""Small conv classifier kept in bfloat16, cosine schedule, decoupled decay."""
import functools
import os

import jax
import jax.numpy as jnp
import numpy as np

LOWER_DIR = os.environ.get("LOWER_DIR")
CLASSES = 5


def init(key):
    def he(k, shape, fan):
        return (jax.random.normal(k, shape) * (2.0 / fan) ** 0.5).astype(jnp.bfloat16)

    k = jax.random.split(key, 4)
    return {
        "conv1": {"w": he(k[0], (3, 3, 1, 8), 9), "b": jnp.zeros((8,), jnp.bfloat16)},
        "conv2": {"w": he(k[1], (3, 3, 8, 16), 72), "b": jnp.zeros((16,), jnp.bfloat16)},
        "fc1": {"w": he(k[2], (256, 32), 256), "b": jnp.zeros((32,), jnp.bfloat16)},
        "fc2": {"w": he(k[3], (32, CLASSES), 32), "b": jnp.zeros((CLASSES,), jnp.bfloat16)},
    }


def conv(x, p, stride):
    y = jax.lax.conv_general_dilated(
        x, p["w"].astype(x.dtype), (stride, stride), "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y + p["b"].astype(x.dtype)


def forward(params, images):
    x = images.astype(params["conv1"]["w"].dtype)
    x = jax.nn.relu(conv(x, params["conv1"], 2))
    x = jax.nn.relu(conv(x, params["conv2"], 2))
    x = x.reshape(x.shape[0], -1)
    x = jax.nn.gelu(x @ params["fc1"]["w"] + params["fc1"]["b"])
    return (x @ params["fc2"]["w"] + params["fc2"]["b"]).astype(jnp.float32)


def loss_fn(params, images, labels):
    logp = jax.nn.log_softmax(forward(params, images))
    return -jnp.mean(jnp.sum(logp * jax.nn.one_hot(labels, CLASSES), axis=-1))


@functools.partial(jax.jit, donate_argnums=(0, 1))
def train_step(params, velocity, images, labels, lr):
    loss, grads = jax.value_and_grad(loss_fn)(params, images, labels)
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(g.astype(jnp.float32))) for g in jax.tree.leaves(grads)))
    scale = jnp.minimum(1.0, 1.0 / (norm + 1e-6))
    grads = jax.tree.map(lambda g: g * scale.astype(g.dtype), grads)
    velocity = jax.tree.map(lambda v, g: (0.9 * v + g).astype(v.dtype), velocity, grads)
    params = jax.tree.map(lambda p, v: p - lr * (v + 1e-4 * p), params, velocity)
    return params, velocity, loss


def cosine(step, total, peak):
    return np.float32(0.5 * peak * (1 + np.cos(np.pi * step / total)))


def batches(n, bs, seed=0):
    rng = np.random.default_rng(seed)
    proto = rng.normal(size=(CLASSES, 16, 16, 1)).astype(np.float32)
    for _ in range(n):
        y = rng.integers(0, CLASSES, bs)
        yield proto[y] + 0.5 * rng.normal(size=(bs, 16, 16, 1)).astype(np.float32), y.astype(np.int32)


def main(steps=4):
    params = init(jax.random.key(1))
    velocity = jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.float32), params)
    for step, (x, y) in enumerate(batches(steps, 8)):
        lr = cosine(step, steps, 0.05)
        if LOWER_DIR:
            text = train_step.lower(params, velocity, x, y, lr).compiler_ir(dialect="hlo").as_hlo_text()
            with open(f"{LOWER_DIR}/step{step}.hlo", "w") as f:
                f.write(text)
        params, velocity, loss = train_step(params, velocity, x, y, lr)
        print(f"step {step} lr {lr:.4f} loss {float(loss):.4f}")


if __name__ == "__main__":
    main()
