"""Two-tower retrieval model with bfloat16 embedding tables (row-wise Adagrad)
and float32 towers (Adam), in-batch sampled softmax with logQ correction."""
import jax
import jax.numpy as jnp
import numpy as np
import optax

N_USERS, N_ITEMS, N_CATS = 300, 200, 12
DIM, HIST, BATCH, N_DENSE = 16, 6, 32, 5


def init_linear(key, n_in, n_out):
    return {"w": jax.random.normal(key, (n_in, n_out)) / np.sqrt(n_in), "b": jnp.zeros(n_out)}


def init_tower(key, n_in, hidden=(32, 24), out=DIM):
    keys = jax.random.split(key, len(hidden) + 1)
    sizes = (n_in, *hidden, out)
    return [init_linear(k, a, b) for k, a, b in zip(keys, sizes[:-1], sizes[1:])]


def init_params(key, table_dtype=jnp.bfloat16):
    ku, ki, kc, kx, kq, kp = jax.random.split(key, 6)
    tables = {
        "user": 0.05 * jax.random.normal(ku, (N_USERS, DIM)),
        "item": 0.05 * jax.random.normal(ki, (N_ITEMS, DIM)),
        "cat": 0.05 * jax.random.normal(kc, (N_CATS, DIM)),
    }
    dense = {
        "cross": init_linear(kx, 2 * DIM + N_DENSE, 2 * DIM + N_DENSE),
        "query": init_tower(kq, 2 * DIM + N_DENSE),
        "item": init_tower(kp, 2 * DIM),
        "log_temp": jnp.zeros(()),
    }
    return {k: v.astype(table_dtype) for k, v in tables.items()}, dense


def tower(layers, x):
    for i, layer in enumerate(layers):
        x = x @ layer["w"] + layer["b"]
        if i + 1 < len(layers):
            x = jax.nn.gelu(x)
    return x / jnp.sqrt(jnp.sum(x * x, -1, keepdims=True) + 1e-6)


def lookup(table, ids):
    return jnp.take(table, ids, axis=0).astype(jnp.float32)


def loss_fn(tables, dense, batch):
    hist = lookup(tables["item"], batch["history"])
    seen = (batch["history"] > 0).astype(jnp.float32)[..., None]
    pooled = (hist * seen).sum(1) / jnp.maximum(seen.sum(1), 1.0)
    x0 = jnp.concatenate([lookup(tables["user"], batch["user"]), pooled, batch["dense"]], -1)
    x1 = x0 * (x0 @ dense["cross"]["w"] + dense["cross"]["b"]) + x0
    query = tower(dense["query"], x1)
    item = tower(dense["item"], jnp.concatenate(
        [lookup(tables["item"], batch["item"]), lookup(tables["cat"], batch["cat"])], -1))
    logits = query @ item.T * jnp.exp(dense["log_temp"]) * 5.0 - batch["log_q"][None, :]
    same = batch["item"][None, :] == batch["item"][:, None]
    logits = jnp.where(same & ~jnp.eye(len(same), dtype=bool), -1e9, logits)
    logp = jax.nn.log_softmax(logits, -1)
    hit = (jnp.argmax(logits, -1) == jnp.arange(len(same))).mean()
    return -jnp.diagonal(logp).mean(), hit


def rowwise_init(tables):
    return jax.tree.map(lambda t: jnp.zeros_like(t[:, 0]), tables)


def rowwise_update(tables, acc, grads, lr=0.05, eps=1e-6):
    def one(table, a, g):
        g = g.astype(jnp.float32)
        a = a + jnp.mean(g * g, axis=-1)
        step = lr * g / (jnp.sqrt(a) + eps)[:, None]
        return (table.astype(jnp.float32) - step).astype(table.dtype), a

    pairs = jax.tree.map(one, tables, acc, grads)
    pick = lambda i: jax.tree.map(lambda p: p[i], pairs, is_leaf=lambda p: isinstance(p, tuple))
    return pick(0), pick(1)


tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(2e-3))


@jax.jit
def train_step(state, batch):
    (loss, hit), grads = jax.value_and_grad(loss_fn, argnums=(0, 1), has_aux=True)(
        state["tables"], state["dense"], batch)
    tables, acc = rowwise_update(state["tables"], state["acc"], grads[0])
    updates, opt = tx.update(grads[1], state["opt"], state["dense"])
    dense = optax.apply_updates(state["dense"], updates)
    new = {"tables": tables, "acc": acc, "dense": dense, "opt": opt}
    return new, {"loss": loss, "hit": hit}


def batches(seed, steps):
    rng = np.random.default_rng(seed)
    popularity = rng.dirichlet(np.ones(N_ITEMS))
    cat_of = rng.integers(0, N_CATS, N_ITEMS)
    for _ in range(steps):
        item = rng.choice(N_ITEMS, BATCH, p=popularity)
        history = rng.choice(N_ITEMS, (BATCH, HIST), p=popularity)
        history *= rng.random((BATCH, HIST)) < 0.8
        yield {
            "user": rng.integers(0, N_USERS, BATCH).astype(np.int32),
            "item": item.astype(np.int32),
            "cat": cat_of[item].astype(np.int32),
            "history": history.astype(np.int32),
            "dense": rng.normal(size=(BATCH, N_DENSE)).astype(np.float32),
            "log_q": np.log(popularity[item] + 1e-6).astype(np.float32),
        }


def main():
    tables, dense = init_params(jax.random.key(0))
    state = {"tables": tables, "acc": rowwise_init(tables), "dense": dense, "opt": tx.init(dense)}
    for step, batch in enumerate(batches(0, 30)):
        state, metrics = train_step(state, batch)
        if step % 10 == 9:
            print(step, {k: round(float(v), 4) for k, v in metrics.items()})


if __name__ == "__main__":
    main()
