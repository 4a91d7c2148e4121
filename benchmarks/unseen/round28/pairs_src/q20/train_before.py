"""Next-symbol GRU in plain JAX."""
import jax
import jax.numpy as jnp
import numpy as np

VOCAB, EMB, HID = 20, 12, 16
B, T = 4, 9
LR, MOM = 0.1, 0.9


def glorot(key, shape):
    return jax.random.normal(key, shape) * np.sqrt(2.0 / sum(shape)).astype(np.float32)


def init(seed=0):
    ks = jax.random.split(jax.random.PRNGKey(seed), 8)
    return {
        "emb": glorot(ks[0], (VOCAB, EMB)),
        "wz": glorot(ks[1], (EMB, HID)), "uz": glorot(ks[2], (HID, HID)), "bz": jnp.zeros(HID),
        "wr": glorot(ks[3], (EMB, HID)), "ur": glorot(ks[4], (HID, HID)), "br": jnp.zeros(HID),
        "wn": glorot(ks[5], (EMB, HID)), "un": glorot(ks[6], (HID, HID)), "bn": jnp.zeros(HID),
        "out": glorot(ks[7], (HID, VOCAB)), "bo": jnp.zeros(VOCAB),
    }


def cell(p, h, x):
    z = jax.nn.sigmoid(x @ p["wz"] + h @ p["uz"] + p["bz"])
    r = jax.nn.sigmoid(x @ p["wr"] + h @ p["ur"] + p["br"])
    n = jnp.tanh(x @ p["wn"] + (r * h) @ p["un"] + p["bn"])
    return (1.0 - z) * h + z * n


def forward(p, ids):
    xs = jnp.swapaxes(p["emb"][ids], 0, 1)

    def body(h, x):
        h = cell(p, h, x)
        return h, h

    _, hs = jax.lax.scan(body, jnp.zeros((ids.shape[0], HID)), xs)
    return jnp.swapaxes(hs, 0, 1) @ p["out"] + p["bo"]


def loss_fn(p, ids):
    logits = forward(p, ids[:, :-1])
    target = ids[:, 1:]
    logp = jax.nn.log_softmax(logits)
    picked = jnp.take_along_axis(logp, target[..., None], axis=-1)[..., 0]
    return -jnp.mean(picked)


@jax.jit
def update(p, v, ids):
    loss, g = jax.value_and_grad(loss_fn)(p, ids)
    v = jax.tree.map(lambda a, b: MOM * a + b, v, g)
    p = jax.tree.map(lambda a, b: a - LR * b, p, v)
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(x)) for x in jax.tree.leaves(g)))
    return p, v, loss, norm


def data(n, seed=1):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        start = rng.integers(0, VOCAB, (B, 1))
        step = rng.integers(1, 4, (B, 1))
        yield ((start + step * np.arange(T)) % VOCAB).astype(np.int32)


def main():
    p = init()
    v = jax.tree.map(jnp.zeros_like, p)
    for ids in data(5):
        p, v, loss, norm = update(p, v, ids)
        print("loss %.6f grad norm %.6f" % (loss, norm))
    print("checksum %.8f" % sum(float(np.abs(np.asarray(x, np.float64)).sum()) for x in p.values()))


if __name__ == "__main__":
    main()
