"""RWKV-style language model in JAX: time mixing by a scan, channel mixing, Adam."""
import jax
import jax.numpy as jnp
import numpy as np

V, D, L, T, B = 50, 16, 2, 12, 4


def init(key):
    def dense(k, i, o):
        return jax.random.normal(k, (i, o)) * i ** -0.5
    ks = iter(jax.random.split(key, 40))
    layers = [dict(ln1=jnp.ones(D), ln2=jnp.ones(D), mix=jnp.full(D, 0.5), decay=jnp.linspace(-2, 1, D),
                   first=jnp.zeros(D), r=dense(next(ks), D, D), k=dense(next(ks), D, D), v=dense(next(ks), D, D),
                   o=dense(next(ks), D, D), ck=dense(next(ks), D, 2 * D), cv=dense(next(ks), 2 * D, D))
              for _ in range(L)]
    return dict(emb=dense(next(ks), V, D), layers=layers, head=dense(next(ks), D, V))


def norm(x, g):
    m = x.mean(-1, keepdims=True)
    return (x - m) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * g


def wkv(k, v, decay, first):
    w = -jnp.exp(decay)

    def cell(carry, kv):
        num, den, top = carry
        kt, vt = kv
        q = jnp.maximum(top, first + kt)
        e1, e2 = jnp.exp(top - q), jnp.exp(first + kt - q)
        out = (e1 * num + e2 * vt) / (e1 * den + e2)
        q = jnp.maximum(top + w, kt)
        e1, e2 = jnp.exp(top + w - q), jnp.exp(kt - q)
        return (e1 * num + e2 * vt, e1 * den + e2, q), out

    shape = (k.shape[0], D)
    start = (jnp.zeros(shape), jnp.zeros(shape), jnp.full(shape, -1e30))
    _, out = jax.lax.scan(cell, start, (k.swapaxes(0, 1), v.swapaxes(0, 1)))
    return out.swapaxes(0, 1)


def shift(x):
    return jnp.pad(x, ((0, 0), (1, 0), (0, 0)))[:, :-1]


def forward(p, ids):
    x = p["emb"][ids]
    for q in p["layers"]:
        h = norm(x, q["ln1"])
        h = h * q["mix"] + shift(h) * (1 - q["mix"])
        r = jax.nn.sigmoid(h @ q["r"])
        x = x + (r * wkv(h @ q["k"], h @ q["v"], q["decay"], q["first"])) @ q["o"]
        h = norm(x, q["ln2"])
        x = x + jnp.square(jax.nn.relu(h @ q["ck"])) @ q["cv"]
    return x @ p["head"]


def loss_fn(p, ids):
    logp = jax.nn.log_softmax(forward(p, ids[:, :-1]))
    return -jnp.take_along_axis(logp, ids[:, 1:, None], -1).mean()


def adam(p, g, m, v, t, lr=2e-3):
    m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
    v = jax.tree.map(lambda a, b: 0.99 * a + 0.01 * b * b, v, g)
    c = jnp.sqrt(1 - 0.99 ** t) / (1 - 0.9 ** t)
    return jax.tree.map(lambda p, a, b: p - lr * c * a / (jnp.sqrt(b) + 1e-8), p, m, v), m, v


@jax.jit
def train_step(p, m, v, t, ids):
    loss, g = jax.value_and_grad(loss_fn)(p, ids)
    p, m, v = adam(p, g, m, v, t)
    return p, m, v, t + 1, loss


def setup():
    p = init(jax.random.key(0))
    z = jax.tree.map(jnp.zeros_like, p)
    return p, z, z, jnp.ones(())


def batch(rng):
    s = rng.integers(0, V, (B, 1))
    return jnp.asarray((s + 3 * np.arange(T + 1)) % V)


def example_args():
    return (*setup(), batch(np.random.default_rng(0)))


if __name__ == "__main__":
    rng, state = np.random.default_rng(1), setup()
    for i in range(20):
        *state, loss = train_step(*state, batch(rng))
        if i % 5 == 0:
            print(i, float(loss))
