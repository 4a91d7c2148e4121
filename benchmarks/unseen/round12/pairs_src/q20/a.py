"""Sensor anomaly scoring: LSTM autoencoder, JAX, momentum SGD with gradient clipping."""
import jax
import jax.numpy as jnp
import numpy as np

FEAT, HID, CODE, WINDOW, BATCH = 4, 16, 6, 10, 8


def init(key):
    ks = iter(jax.random.split(key, 16))
    u = lambda i, o: jax.random.uniform(next(ks), (i, o), minval=-1, maxval=1) / np.sqrt(i)
    lstm = lambda i: {"b": jnp.zeros(4 * HID), "h": u(HID, 4 * HID), "x": u(i, 4 * HID)}
    return {"code": {"b": jnp.zeros(CODE), "w": u(HID, CODE)},
            "dec": lstm(CODE), "enc": lstm(FEAT), "enc2": lstm(HID),
            "out": {"b": jnp.zeros(FEAT), "w": u(HID, FEAT)}}


def lstm(p, xs):
    def cell(carry, x):
        h, c = carry
        i, f, g, o = jnp.split(x @ p["x"] + h @ p["h"] + p["b"], 4, axis=-1)
        c = jax.nn.sigmoid(f + 1.0) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((xs.shape[1], HID))
    (last, _), hs = jax.lax.scan(cell, (zero, zero), xs)
    return last, hs


def reconstruct(p, x):
    xs = x.swapaxes(0, 1)
    _, hs = lstm(p["enc"], xs)
    last, _ = lstm(p["enc2"], hs)
    z = jnp.tanh(last @ p["code"]["w"] + p["code"]["b"])
    _, hs = lstm(p["dec"], jnp.broadcast_to(z, (WINDOW, *z.shape)))
    return (hs @ p["out"]["w"] + p["out"]["b"]).swapaxes(0, 1), z


def huber(e):
    a = jnp.abs(e)
    return jnp.where(a < 1.0, 0.5 * e * e, a - 0.5)


def loss_fn(p, x):
    y, z = reconstruct(p, x)
    return huber(y - x).mean() + 1e-3 * jnp.square(z).mean()


def clip(grads, limit):
    norm = jnp.sqrt(sum(jnp.square(g).sum() for g in jax.tree.leaves(grads)))
    return jax.tree.map(lambda g: g * jnp.minimum(1.0, limit / (norm + 1e-6)), grads), norm


@jax.jit
def train_step(p, vel, lr, x):
    loss, grads = jax.value_and_grad(loss_fn)(p, x)
    grads, norm = clip(grads, 1.0)
    vel = jax.tree.map(lambda v, g: 0.9 * v - lr * g, vel, grads)
    p = jax.tree.map(jnp.add, p, vel)
    return p, vel, loss, norm


def windows(rng):
    t = np.arange(WINDOW) + rng.uniform(0, 20, (BATCH, 1))
    x = np.stack([np.sin(t * f) for f in (0.3, 0.7, 1.1, 1.9)], -1)
    return jnp.asarray(x + 0.05 * rng.standard_normal(x.shape), jnp.float32)


def example_args():
    p = init(jax.random.key(0))
    return p, jax.tree.map(jnp.zeros_like, p), jnp.float32(0.05), windows(np.random.default_rng(0))


if __name__ == "__main__":
    rng = np.random.default_rng(8)
    p, vel, lr, _ = example_args()
    for i in range(20):
        p, vel, loss, norm = train_step(p, vel, lr * 0.98 ** i, windows(rng))
        if i % 5 == 0:
            print(i, float(loss), float(norm))
