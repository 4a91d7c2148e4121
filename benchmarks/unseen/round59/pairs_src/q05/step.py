"""Self-attentive next-item recommender (SASRec) with sampled negatives and averaged weights."""
import jax
import jax.numpy as jnp
import numpy as np
import optax

ITEMS, DIM, HEADS, LEN, BATCH = 200, 32, 2, 12, 8
COMPUTE = jnp.bfloat16


def dense(key, din, dout):
    return {"w": jax.random.normal(key, (din, dout)) / np.sqrt(din), "b": jnp.zeros((dout,))}


def init_params(key):
    k = jax.random.split(key, 6)
    return {
        "item": 0.02 * jax.random.normal(k[0], (ITEMS + 1, DIM)),
        "pos": 0.02 * jax.random.normal(k[1], (LEN, DIM)),
        "qkv": dense(k[2], DIM, 3 * DIM),
        "out": dense(k[3], DIM, DIM),
        "ff1": dense(k[4], DIM, DIM),
        "ff2": dense(k[5], DIM, DIM),
        "ln1": jnp.ones((DIM,)),
        "ln2": jnp.ones((DIM,)),
        "ln3": jnp.ones((DIM,)),
    }


def norm(x, g):
    x32 = x.astype(jnp.float32)
    x32 = x32 - x32.mean(-1, keepdims=True)
    return (x32 * jax.lax.rsqrt(jnp.square(x32).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype) * g


def linear(p, x):
    return x @ p["w"] + p["b"]


def encode(p, seq):
    x = p["item"][seq] * np.sqrt(DIM).astype(jnp.bfloat16) + p["pos"]
    keep = (seq > 0)[..., None]
    b, t, _ = x.shape
    q, k, v = jnp.split(linear(p["qkv"], norm(x, p["ln1"])).reshape(b, t, HEADS, -1), 3, -1)
    att = jnp.einsum("bthd,bshd->bhts", q, k) / np.sqrt(DIM // HEADS).astype(jnp.bfloat16)
    mask = jnp.tril(jnp.ones((t, t), bool)) & (seq > 0)[:, None, None, :]
    att = jax.nn.softmax(jnp.where(mask, att, -1e4).astype(jnp.float32), -1).astype(x.dtype)
    x = x + linear(p["out"], jnp.einsum("bhts,bshd->bthd", att, v).reshape(b, t, DIM))
    x = x + linear(p["ff2"], jax.nn.relu(linear(p["ff1"], norm(x, p["ln2"]))))
    return norm(x * keep, p["ln3"])


def cast(tree, dtype):
    return jax.tree.map(lambda a: a.astype(dtype), tree)


def loss_fn(params, batch):
    p = cast(params, COMPUTE)
    h = encode(p, batch["seq"])
    pos = (h * p["item"][batch["pos"]]).sum(-1).astype(jnp.float32)
    neg = (h * p["item"][batch["neg"]]).sum(-1).astype(jnp.float32)
    m = (batch["pos"] > 0).astype(jnp.float32)
    return ((jax.nn.softplus(-pos) + jax.nn.softplus(neg)) * m).sum() / m.sum()


tx = optax.chain(optax.clip_by_global_norm(5.0), optax.adam(1e-3, b2=0.98))


@jax.jit
def train_step(state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(state["params"], batch)
    updates, opt = tx.update(grads, state["opt"], state["params"])
    params = optax.apply_updates(state["params"], updates)
    avg = jax.tree.map(lambda a, p: 0.999 * a + 0.001 * p, state["avg"], params)
    return {"params": params, "opt": opt, "avg": avg}, loss


def batches(seed, n):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        seq = rng.integers(1, ITEMS + 1, (BATCH, LEN + 1)).astype(np.int32)
        for row, k in zip(seq, rng.integers(0, LEN // 2, BATCH)):
            row[:k] = 0
        pos = np.where(seq[:, :-1] > 0, seq[:, 1:], 0)
        yield {"seq": seq[:, :-1], "pos": pos, "neg": rng.integers(1, ITEMS + 1, pos.shape).astype(np.int32)}


def main():
    params = init_params(jax.random.key(0))
    state = {"params": params, "opt": tx.init(params), "avg": cast(params, COMPUTE)}
    for i, batch in enumerate(batches(1, 4)):
        state, loss = train_step(state, batch)
        print(i, round(float(loss), 4), train_step._cache_size(), flush=True)


if __name__ == "__main__":
    main()
