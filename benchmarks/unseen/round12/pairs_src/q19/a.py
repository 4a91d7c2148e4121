"""Two-tower retrieval with in-batch softmax, AdaGrad, in JAX."""
import jax
import jax.numpy as jnp
import numpy as np

USERS, ITEMS, TAGS, DIM, OUT, BATCH, HIST = 60, 80, 10, 12, 16, 8, 5


def init(key):
    ks = iter(jax.random.split(key, 32))
    def w(*s):
        return jax.random.normal(next(ks), s) / np.sqrt(s[0])
    return {
        "item": {"id": 0.1 * w(ITEMS, DIM), "tag": 0.1 * w(TAGS, DIM), "w1": w(2 * DIM, 32), "b1": jnp.zeros(32),
                 "w2": w(32, OUT), "b2": jnp.zeros(OUT)},
        "log_temp": jnp.zeros(()),
        "user": {"hist": 0.1 * w(ITEMS, DIM), "id": 0.1 * w(USERS, DIM), "w1": w(2 * DIM, 32), "b1": jnp.zeros(32),
                 "w2": w(32, 32), "b2": jnp.zeros(32), "w3": w(32, OUT), "g": jnp.ones(32)},
    }


def unit(x):
    return x * jax.lax.rsqrt(jnp.square(x).sum(-1, keepdims=True) + 1e-6)


def user_tower(p, user, history):
    pooled = p["hist"][history].mean(1)
    h = jnp.concatenate([p["id"][user], pooled], -1)
    h = jax.nn.relu(h @ p["w1"] + p["b1"])
    h = h * jax.lax.rsqrt(jnp.square(h).mean(-1, keepdims=True) + 1e-6) * p["g"]
    h = jnp.tanh(h @ p["w2"] + p["b2"])
    return unit(h @ p["w3"])


def item_tower(p, item, tag):
    h = jnp.concatenate([p["id"][item], p["tag"][tag]], -1)
    h = jax.nn.relu(h @ p["w1"] + p["b1"])
    return unit(h @ p["w2"] + p["b2"])


def loss_fn(params, batch):
    u = user_tower(params["user"], batch["user"], batch["history"])
    v = item_tower(params["item"], batch["item"], batch["tag"])
    scores = u @ v.T * jnp.exp(params["log_temp"])
    scores = scores - batch["log_freq"][None, :]
    logp = jax.nn.log_softmax(scores, axis=-1)
    return -jnp.diagonal(logp).mean()


@jax.jit
def train_step(params, accum, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    accum = jax.tree.map(lambda a, g: a + g * g, accum, grads)
    params = jax.tree.map(lambda p, a, g: p - 0.05 * g / (jnp.sqrt(a) + 1e-7), params, accum, grads)
    return params, accum, loss


def make_batch(rng):
    item = rng.integers(0, ITEMS, BATCH)
    return {"user": rng.integers(0, USERS, BATCH), "history": rng.integers(0, ITEMS, (BATCH, HIST)), "item": item,
            "tag": item % TAGS, "log_freq": np.log(1.0 / (1 + item)).astype(np.float32)}


def example_args():
    params = init(jax.random.key(4))
    return params, jax.tree.map(lambda p: jnp.full_like(p, 0.1), params), make_batch(np.random.default_rng(0))


if __name__ == "__main__":
    rng = np.random.default_rng(9)
    params, accum, _ = example_args()
    for step in range(20):
        params, accum, loss = train_step(params, accum, make_batch(rng))
        if step % 5 == 4:
            print(f"step {step + 1} loss {loss:.4f}")
