"""Small convolutional classifier kept in bfloat16 (params and activations)."""
import os

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

PARAM_DTYPE = jnp.bfloat16


class Block(nn.Module):
    ch: int
    stride: int

    @nn.compact
    def __call__(self, x):
        kw = dict(param_dtype=PARAM_DTYPE, dtype=None)
        h = nn.Conv(self.ch, (3, 3), strides=self.stride, use_bias=False, **kw)(x)
        h = nn.GroupNorm(num_groups=2, **kw)(h)
        h = nn.relu(h)
        h = nn.Conv(self.ch, (1, 1), **kw)(h)
        skip = nn.avg_pool(x, (self.stride, self.stride), (self.stride, self.stride))
        skip = nn.Dense(self.ch, use_bias=False, **kw)(skip)
        return nn.relu(h + skip)


class Net(nn.Module):
    classes: int = 4

    @nn.compact
    def __call__(self, x):
        x = x.astype(PARAM_DTYPE)
        x = Block(4, 2)(x)
        x = Block(8, 2)(x)
        x = x.mean(axis=(1, 2))
        return nn.Dense(self.classes, param_dtype=PARAM_DTYPE)(x)


model = Net()


def schedule(count):
    return 0.05 * jnp.minimum(1.0, (count + 1) / 4)


def init_state(key):
    params = model.init(key, jnp.zeros((1, 8, 8, 3)))["params"]
    momentum = jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.float32), params)
    return {"params": params, "momentum": momentum, "count": jnp.zeros((), jnp.int32)}


def loss_fn(params, images, labels):
    logits = model.apply({"params": params}, images).astype(jnp.float32)
    targets = optax.smooth_labels(jax.nn.one_hot(labels, logits.shape[-1]), 0.1)
    loss = optax.softmax_cross_entropy(logits, targets).mean()
    return loss, jnp.mean(jnp.argmax(logits, -1) == labels)


@jax.jit
def train_step(state, images, labels):
    grad_fn = jax.value_and_grad(loss_fn, has_aux=True)
    (loss, acc), grads = grad_fn(state["params"], images, labels)
    lr = schedule(state["count"])
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, state["momentum"], grads)
    params = jax.tree.map(lambda p, m: p - lr * m, state["params"], momentum)
    new_state = {"params": params, "momentum": momentum, "count": state["count"] + 1}
    return new_state, {"loss": loss, "acc": acc}


def fake_images(rng, n):
    labels = rng.integers(0, 4, size=(n,))
    images = rng.normal(size=(n, 8, 8, 3)) * 0.5
    for i, c in enumerate(labels):
        r, s = divmod(int(c), 2)
        images[i, 4 * r : 4 * r + 4, 4 * s : 4 * s + 4] += 1.0
    return images.astype(np.float32), labels.astype(np.int32)


def main():
    rng = np.random.default_rng(0)
    state = init_state(jax.random.PRNGKey(0))
    dump = os.environ.get("DUMP_HLO")
    for i in range(4):
        images, labels = fake_images(rng, 8)
        if dump:
            text = train_step.lower(state, images, labels).compiler_ir(dialect="hlo").as_hlo_text()
            with open(f"{dump}.{i}", "w") as f:
                f.write(text)
        state, metrics = train_step(state, images, labels)
        print(i, float(metrics["loss"]), float(metrics["acc"]), train_step._cache_size())


if __name__ == "__main__":
    main()
