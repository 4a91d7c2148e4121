"""Masked-token pretraining on contract clauses (bidirectional encoder, dropout, padded batches)."""
import jax
import jax.numpy as jnp
import numpy as np

CONF = {"vocab": 90, "dim": 24, "heads": 3, "ffn": 48, "blocks": 2, "drop": 0.15, "pad": 0, "mask": 1, "lr": 1e-2}


class Params(dict):
    """Nested parameters made from one seed."""

    @classmethod
    def create(cls, c, seed=0):
        rng = np.random.default_rng(seed)
        w = lambda i, o: jnp.asarray(rng.normal(size=(i, o)) * i ** -0.5, jnp.float32)
        blocks = [{"q": w(c["dim"], c["dim"]), "k": w(c["dim"], c["dim"]), "v": w(c["dim"], c["dim"]),
                   "o": w(c["dim"], c["dim"]), "f1": w(c["dim"], c["ffn"]), "f2": w(c["ffn"], c["dim"])}
                  for _ in range(c["blocks"])]
        return {"table": w(c["vocab"], c["dim"]), "blocks": blocks, "bias": jnp.zeros(c["vocab"])}


def dropout(key, x, rate):
    keep = jax.random.bernoulli(key, 1.0 - rate, x.shape)
    return jnp.where(keep, x / (1.0 - rate), 0.0)


def standardize(x):
    mu = x.mean(-1, keepdims=True)
    return (x - mu) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def self_attention(c, p, x, valid, key):
    b, t, d = x.shape
    heads = lambda w: (x @ w).reshape(b, t, c["heads"], -1).transpose(0, 2, 1, 3)
    score = heads(p["q"]) @ heads(p["k"]).swapaxes(-1, -2) * (d // c["heads"]) ** -0.5
    score = jnp.where(valid[:, None, None, :], score, -1e30)
    prob = dropout(key, jax.nn.softmax(score), c["drop"])
    return (prob @ heads(p["v"])).transpose(0, 2, 1, 3).reshape(b, t, d) @ p["o"]


def encode(c, params, ids, valid, key):
    x = params["table"][ids]
    for p in params["blocks"]:
        key, k1, k2 = jax.random.split(key, 3)
        x = standardize(x + self_attention(c, p, x, valid, k1))
        x = standardize(x + dropout(k2, jax.nn.relu(x @ p["f1"]), c["drop"]) @ p["f2"])
    return x @ params["table"].T + params["bias"]


def mlm_loss(params, c, ids, key):
    valid = ids != c["pad"]
    k_pick, k_net = jax.random.split(key)
    picked = jax.random.uniform(k_pick, ids.shape) < 0.15
    logits = encode(c, params, jnp.where(picked, c["mask"], ids), valid, k_net)
    nll = -jnp.take_along_axis(jax.nn.log_softmax(logits), ids[..., None], -1)[..., 0]
    return (nll * picked).sum() / jnp.maximum(picked.sum(), 1)


def make_update(c):
    def update(params, ids, key):
        loss, grads = jax.value_and_grad(mlm_loss)(params, c, ids, key)
        return jax.tree.map(lambda w, g: w - c["lr"] * jnp.sign(g), params, grads), loss

    return jax.jit(update)


def clauses(rng, n=4, width=14):
    ids = rng.integers(2, CONF["vocab"], size=(n, width))
    lengths = rng.integers(6, width + 1, size=n)
    return np.where(np.arange(width) < lengths[:, None], ids, CONF["pad"]).astype(np.int32)


def main():
    rng = np.random.default_rng(12)
    params, update = Params.create(CONF), make_update(CONF)
    key = jax.random.key(5)
    for i in range(2):
        key, sub = jax.random.split(key)
        params, loss = update(params, clauses(rng), sub)
        print(f"step {i} loss {loss:.4f}")


if __name__ == "__main__":
    main()
