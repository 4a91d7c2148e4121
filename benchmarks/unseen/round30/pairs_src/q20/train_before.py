"""Bag of notes -> GRU next-note model in plain jax."""
import jax
import jax.numpy as jnp
import numpy as np

NOTES, HIDDEN, EMB, LENGTH, BATCH = 24, 20, 12, 10, 8
LR, BETA1, BETA2, EPS = 3e-3, 0.9, 0.999, 1e-8


def init(key):
    k = jax.random.split(key, 5)
    return {
        "embed": 0.1 * jax.random.normal(k[0], (NOTES, EMB)),
        "gru": {
            "wx": jax.random.normal(k[1], (EMB, 3 * HIDDEN)) / np.sqrt(EMB),
            "wh": jax.random.normal(k[2], (HIDDEN, 3 * HIDDEN)) / np.sqrt(HIDDEN),
            "b": jnp.zeros(3 * HIDDEN),
        },
        "out": {"w": jax.random.normal(k[3], (HIDDEN, NOTES)) / np.sqrt(HIDDEN), "b": jnp.zeros(NOTES)},
    }


def gru_cell(p, h, x):
    gx = x @ p["wx"] + p["b"]
    gh = h @ p["wh"]
    zx, rx, nx = jnp.split(gx, 3, axis=-1)
    zh, rh, nh = jnp.split(gh, 3, axis=-1)
    z = jax.nn.sigmoid(zx + zh)
    r = jax.nn.sigmoid(rx + rh)
    n = jnp.tanh(nx + r * nh)
    return (1.0 - z) * n + z * h


def song_loss(params, song):
    # one song, [LENGTH + 1]
    x = params["embed"][song[:-1]]

    def body(h, xt):
        h = gru_cell(params["gru"], h, xt)
        return h, h

    _, hs = jax.lax.scan(body, jnp.zeros(HIDDEN), x)
    logits = hs @ params["out"]["w"] + params["out"]["b"]
    logp = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(logp, song[1:, None], axis=-1)[:, 0]


def loss_fn(params, songs):
    return jnp.mean(jax.vmap(song_loss, in_axes=(None, 0))(params, songs))


@jax.jit
def train_step(params, m, v, count, songs):
    loss, grads = jax.value_and_grad(loss_fn)(params, songs)
    count = count + 1
    m = jax.tree.map(lambda a, g: BETA1 * a + (1 - BETA1) * g, m, grads)
    v = jax.tree.map(lambda a, g: BETA2 * a + (1 - BETA2) * g * g, v, grads)
    c1 = 1 - BETA1**count.astype(jnp.float32)
    c2 = 1 - BETA2**count.astype(jnp.float32)
    params = jax.tree.map(
        lambda p, a, b: p - LR * (a / c1) / (jnp.sqrt(b / c2) + EPS), params, m, v)
    return params, m, v, count, loss


def songs_batch(rng):
    start = rng.integers(0, NOTES, (BATCH, 1))
    step = rng.integers(1, 4, (BATCH, 1))
    return ((start + step * np.arange(LENGTH + 1)) % NOTES).astype(np.int32)


def main(steps=5, on_step=None):
    rng = np.random.default_rng(0)
    params = init(jax.random.key(0))
    m = jax.tree.map(jnp.zeros_like, params)
    v = jax.tree.map(jnp.zeros_like, params)
    count = jnp.zeros((), jnp.int32)
    for i in range(steps):
        songs = songs_batch(rng)
        if on_step is not None:
            on_step(i, train_step, (params, m, v, count, songs))
        params, m, v, count, loss = train_step(params, m, v, count, songs)
        print(i, float(loss))


if __name__ == "__main__":
    main()
