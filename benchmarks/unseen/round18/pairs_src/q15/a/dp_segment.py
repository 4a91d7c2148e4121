"""Data-parallel training of a crop-segmentation net over the local devices."""
import logging
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

log = logging.getLogger("segment")
WIDTHS = (3, 8, 16)


def conv(x, w, stride=1):
    return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME",
                                        dimension_numbers=("NHWC", "HWIO", "NHWC"))


def upsample(x):
    b, h, w, c = x.shape
    return jax.image.resize(x, (b, 2 * h, 2 * w, c), "nearest")


def init(seed):
    rng = np.random.default_rng(seed)

    def kernel(i, o):
        return jnp.asarray(rng.normal(size=(3, 3, i, o)) * np.sqrt(2 / (9 * i)), jnp.float32)

    return {
        "enc": [kernel(a, b) for a, b in zip(WIDTHS[:-1], WIDTHS[1:])],
        "dec": [kernel(WIDTHS[2], WIDTHS[1]), kernel(2 * WIDTHS[1], 4)],
        "bias": jnp.zeros(4),
    }


def forward(params, x):
    h1 = jax.nn.relu(conv(x, params["enc"][0]))
    h2 = jax.nn.relu(conv(h1, params["enc"][1], stride=2))
    up = jax.nn.relu(conv(upsample(h2), params["dec"][0]))
    return conv(jnp.concatenate([up, h1], -1), params["dec"][1]) + params["bias"]


def dice(logits, mask):
    p = jax.nn.softmax(logits)
    y = jax.nn.one_hot(mask, 4)
    inter = (p * y).sum((1, 2))
    return 1 - ((2 * inter + 1) / (p.sum((1, 2)) + y.sum((1, 2)) + 1)).mean()


def make_step(mesh, lr):
    @partial(jax.shard_map, mesh=mesh, in_specs=(P(), P(), P("data"), P("data")),
             out_specs=(P(), P(), P()), check_vma=False)
    def step(params, velocity, images, masks):
        loss, grads = jax.value_and_grad(lambda p: dice(forward(p, images), masks))(params)
        grads = jax.lax.pmean(grads, "data")
        loss = jax.lax.pmean(loss, "data")
        velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, grads)
        params = jax.tree.map(lambda p, v: p - lr * v, params, velocity)
        return params, velocity, loss

    return jax.jit(step)


def main():
    logging.basicConfig(level=logging.INFO)
    mesh = Mesh(np.array(jax.devices()), ("data",))
    params = init(1)
    velocity = jax.tree.map(jnp.zeros_like, params)
    step = make_step(mesh, lr=0.05)
    rng = np.random.default_rng(7)
    spread = NamedSharding(mesh, P("data"))
    for i in range(2):
        images = jax.device_put(rng.random((8, 16, 16, 3), dtype=np.float32), spread)
        masks = jax.device_put(rng.integers(4, size=(8, 16, 16)), spread)
        params, velocity, loss = step(params, velocity, images, masks)
        log.info("%d dice loss %.4f", i, loss)


if __name__ == "__main__":
    main()
