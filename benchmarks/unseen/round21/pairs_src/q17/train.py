import os
import tempfile
from collections import OrderedDict

import jax
import jax.numpy as jnp
import numpy as np


def init(rng):
    def mat(*shape):
        return jnp.asarray(rng.normal(size=shape) * 0.3, jnp.float32)

    return OrderedDict(
        stem=mat(7, 12),
        stem_bias=jnp.zeros(12),
        recur=mat(12, 12),
        head=mat(12, 3),
        head_bias=jnp.zeros(3),
    )


def forward(params, x):
    h = jnp.zeros((x.shape[0], 12))
    for t in range(x.shape[1]):
        h = jnp.tanh(x[:, t] @ params["stem"] + params["stem_bias"] + h @ params["recur"])
    return h @ params["head"] + params["head_bias"]


@jax.jit
def train_step(params, x, y):
    def loss_fn(p):
        logp = jax.nn.log_softmax(forward(p, x))
        return -jnp.mean(jnp.sum(logp * jax.nn.one_hot(y, 3), axis=-1))

    loss, grads = jax.value_and_grad(loss_fn)(params)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return params, loss


class Checkpoint:
    def __init__(self, folder):
        self.path = os.path.join(folder, "params.npz")

    def save(self, params):
        np.savez(self.path, **params)

    def load(self):
        with np.load(self.path) as data:
            return OrderedDict((k, jnp.asarray(data[k])) for k in sorted(data.files))


def main():
    rng = np.random.default_rng(5)
    params = init(rng)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Checkpoint(folder)
        best = np.inf
        for step in range(8):
            x = rng.normal(size=(8, 4, 7)).astype(np.float32)
            y = x[:, -1, :3].argmax(-1).astype(np.int32)
            params, loss = train_step(params, x, y)
            print(step, round(float(loss), 4))
            if step == 0 or loss < best:
                best = float(loss)
                checkpoint.save(params)
            elif loss > 1.02 * best:
                params = checkpoint.load()


if __name__ == "__main__":
    main()
