"""SimSiam on small images, plain JAX, SGD with momentum and weight decay."""
import functools

import jax
import jax.numpy as jnp
import numpy as np

CFG = dict(width=8, dim=24, pred=12, batch=8, lr=0.05, momentum=0.9, wd=5e-4)


def conv(x, w, stride):
    return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def batch_norm(x, scale=None, bias=None, eps=1e-5):
    axes = tuple(range(x.ndim - 1))
    mean = x.mean(axes, keepdims=True)
    var = jnp.square(x - mean).mean(axes, keepdims=True)
    x = (x - mean) / jnp.sqrt(var + eps)
    return x if scale is None else x * scale + bias


def init_params(key):
    w, d, p = CFG["width"], CFG["dim"], CFG["pred"]
    k = jax.random.split(key, 7)
    he = lambda k, s: jax.random.normal(k, s) * np.sqrt(2.0 / np.prod(s[:-1]))
    return {
        "backbone": {"c1": he(k[0], (3, 3, 3, w)), "c2": he(k[1], (3, 3, w, 2 * w)), "c3": he(k[2], (3, 3, 2 * w, 2 * w)),
                     "s1": jnp.ones(w), "b1": jnp.zeros(w), "s2": jnp.ones(2 * w), "b2": jnp.zeros(2 * w)},
        "proj": {"w1": he(k[3], (2 * w, d)), "w2": he(k[4], (d, d))},
        "pred": {"w1": he(k[5], (d, p)), "w2": he(k[6], (p, d)), "b2": jnp.zeros(d)},
    }


def backbone(p, x):
    x = jax.nn.relu(batch_norm(conv(x, p["c1"], 2), p["s1"], p["b1"]))
    x = jax.nn.relu(batch_norm(conv(x, p["c2"], 2), p["s2"], p["b2"]))
    return jax.nn.relu(conv(x, p["c3"], 1)).mean((1, 2))


def project(p, h):
    return batch_norm(jax.nn.relu(batch_norm(h @ p["w1"])) @ p["w2"])


def predict(p, z):
    return jax.nn.relu(batch_norm(z @ p["w1"])) @ p["w2"] + p["b2"]


def neg_cosine(p, z):
    z = jax.lax.stop_gradient(z)
    p = p / jnp.linalg.norm(p, axis=-1, keepdims=True)
    z = z / jnp.linalg.norm(z, axis=-1, keepdims=True)
    return -(p * z).sum(-1).mean()


def loss_fn(params, x1, x2):
    z1 = project(params["proj"], backbone(params["backbone"], x1))
    z2 = project(params["proj"], backbone(params["backbone"], x2))
    p1, p2 = predict(params["pred"], z1), predict(params["pred"], z2)
    return 0.5 * neg_cosine(p1, z2) + 0.5 * neg_cosine(p2, z1)


@functools.partial(jax.jit, donate_argnums=())
def update(params, velocity, x1, x2):
    loss, grads = jax.value_and_grad(loss_fn)(params, x1, x2)
    grads = jax.tree.map(lambda g, p: g + CFG["wd"] * p, grads, params)
    velocity = jax.tree.map(lambda v, g: CFG["momentum"] * v + g, velocity, grads)
    params = jax.tree.map(lambda p, v: p - CFG["lr"] * v, params, velocity)
    return params, velocity, loss


train_step = update


def views(rng):
    base = rng.random((CFG["batch"], 12, 12, 3), dtype=np.float32)
    noise = lambda: base * rng.uniform(0.7, 1.3) + 0.05 * rng.standard_normal(base.shape).astype(np.float32)
    return jnp.asarray(noise(), jnp.float32), jnp.asarray(noise()[:, :, ::-1], jnp.float32)


def example_args():
    params = init_params(jax.random.key(0))
    return params, jax.tree.map(jnp.zeros_like, params), *views(np.random.default_rng(0))


if __name__ == "__main__":
    rng = np.random.default_rng(3)
    params, velocity, *_ = example_args()
    for it in range(15):
        params, velocity, loss = update(params, velocity, *views(rng))
        if it % 5 == 0:
            print(f"iter {it} loss {loss:.4f}")
