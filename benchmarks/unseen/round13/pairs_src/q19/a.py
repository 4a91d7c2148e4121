"""Two-tower retrieval with in-batch softmax, Adagrad."""
import sys

import jax
import jax.numpy as jnp
from jax import random

USERS, ITEMS, DIM, HID, OUT, B = 50, 80, 8, 16, 8, 12


def tower_init(key, rows, extra):
    k = random.split(key, 3)
    return [
        random.normal(k[0], (rows, DIM)) * 0.1,
        random.normal(k[1], (DIM + extra, HID)) * (DIM + extra) ** -0.5, jnp.zeros(HID),
        random.normal(k[2], (HID, OUT)) * HID ** -0.5, jnp.zeros(OUT),
    ]


def unit(x):
    return x / jnp.sqrt(jnp.sum(x * x, axis=-1, keepdims=True) + 1e-8)


def user_tower(p, ids, age):
    table, w1, b1, w2, b2 = p
    h = jnp.concatenate([table[ids], age], axis=-1)
    h = jnp.tanh(h @ w1 + b1)
    return unit(h @ w2 + b2)


def item_tower(p, ids, tags):
    table, w1, b1, w2, b2 = p
    h = jnp.concatenate([table[ids], tags], axis=-1)
    h = jax.nn.relu(h @ w1 + b1)
    return unit(h @ w2 + b2)


def retrieval_loss(user, item, batch):
    u = user_tower(user, batch["uid"], batch["age"])
    v = item_tower(item, batch["iid"], batch["tags"])
    logits = u @ v.T / 0.1 - batch["log_pop"][None, :]
    return jnp.mean(jax.nn.logsumexp(logits, axis=1) - jnp.diagonal(logits))


def adagrad(ps, accs, gs, lr=0.1):
    new_p, new_a = [], []
    for p, a, g in zip(ps, accs, gs):
        a = a + g * g
        new_a.append(a)
        new_p.append(p - lr * g / jnp.sqrt(a + 1e-10))
    return new_p, new_a


@jax.jit
def step(user, item, acc_user, acc_item, batch):
    loss, (gu, gi) = jax.value_and_grad(retrieval_loss, argnums=(0, 1))(user, item, batch)
    user, acc_user = adagrad(user, acc_user, gu)
    item, acc_item = adagrad(item, acc_item, gi)
    return user, item, acc_user, acc_item, loss


def make_batch(key):
    k = random.split(key, 4)
    return {
        "uid": random.randint(k[0], (B,), 0, USERS), "age": random.uniform(k[1], (B, 1)),
        "iid": random.randint(k[2], (B,), 0, ITEMS), "tags": random.bernoulli(k[3], 0.3, (B, 4)).astype(jnp.float32),
        "log_pop": jnp.log1p(jnp.arange(B, dtype=jnp.float32)),
    }


def main(out=None):
    ku, ki, key = random.split(random.PRNGKey(21), 3)
    user, item = tower_init(ku, USERS, 1), tower_init(ki, ITEMS, 4)
    acc_user, acc_item = [jnp.full_like(p, 0.1) for p in user], [jnp.full_like(p, 0.1) for p in item]
    if out:
        ir = step.lower(user, item, acc_user, acc_item, make_batch(key)).as_text("hlo", debug_info=True)
        open(out, "w").write(ir)
    for i in range(6):
        user, item, acc_user, acc_item, loss = step(user, item, acc_user, acc_item, make_batch(random.fold_in(key, i)))
    print("loss", float(loss))


if __name__ == "__main__":
    main(*sys.argv[1:])
