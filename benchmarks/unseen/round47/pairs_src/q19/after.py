"""Secondary structure tagging of protein fragments: window features and a linear-chain CRF.

Batched throughout (no vmap), optimizer from optax.
"""
import os
import sys

import jax
import jax.numpy as jnp
import optax

AMINO = 21
TAGS = 4
LENGTH = 9


def init_params(key, dim=6, hidden=10):
    k = jax.random.split(key, 5)
    return {
        "embed": 0.3 * jax.random.normal(k[0], (AMINO, dim)),
        "w1": 0.3 * jax.random.normal(k[1], (3 * dim, hidden)),
        "b1": jnp.zeros(hidden),
        "w2": 0.3 * jax.random.normal(k[2], (hidden, TAGS)),
        "b2": jnp.zeros(TAGS),
        "trans": 0.1 * jax.random.normal(k[3], (TAGS, TAGS)),
        "start": 0.1 * jax.random.normal(k[4], (TAGS,)),
    }


optimizer = optax.adam(3e-3, b1=0.9, b2=0.999, eps=1e-8)


def emissions(params, seq):
    h = jnp.pad(params["embed"][seq], ((0, 0), (1, 1), (0, 0)))
    win = jnp.concatenate([h[:, :-2], h[:, 1:-1], h[:, 2:]], axis=-1)
    z = jnp.tanh(jnp.einsum("bti,ih->bth", win, params["w1"]) + params["b1"])
    return jnp.einsum("bth,hk->btk", z, params["w2"]) + params["b2"]


def path_score(params, emit, tags, mask):
    own = jnp.take_along_axis(emit, tags[..., None], axis=-1)[..., 0]
    moves = params["trans"][tags[:, :-1], tags[:, 1:]]
    own = (own * mask).sum(axis=1)
    moves = (moves * mask[:, 1:]).sum(axis=1)
    return params["start"][tags[:, 0]] + own + moves


def partition(params, emit, mask):
    def body(alpha, inputs):
        e, keep = inputs
        scores = alpha[:, :, None] + params["trans"]
        new = jax.nn.logsumexp(scores, axis=1) + e
        return jnp.where(keep[:, None] > 0, new, alpha), None

    emit_t = jnp.swapaxes(emit, 0, 1)
    alpha = params["start"] + emit_t[0]
    alpha, _ = jax.lax.scan(body, alpha, (emit_t[1:], mask.T[1:]))
    return jax.nn.logsumexp(alpha, axis=-1)


def loss_fn(params, batch):
    emit = emissions(params, batch["seq"])
    log_z = partition(params, emit, batch["mask"])
    gold = path_score(params, emit, batch["tags"], batch["mask"])
    return (log_z - gold).sum() / batch["mask"].sum()


def step(params, state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(params, updates), state, loss


def make_batch(key, n=5):
    k1, k2, k3 = jax.random.split(key, 3)
    length = jax.random.randint(k3, (n, 1), 3, LENGTH + 1)
    return {
        "seq": jax.random.randint(k1, (n, LENGTH), 0, AMINO),
        "tags": jax.random.randint(k2, (n, LENGTH), 0, TAGS),
        "mask": (jnp.arange(LENGTH)[None, :] < length).astype(jnp.float32),
    }


def main(path):
    params = init_params(jax.random.PRNGKey(19))
    state = optimizer.init(params)
    train = jax.jit(step)
    lowered = train.lower(params, state, make_batch(jax.random.PRNGKey(0)))
    with open(path, "w") as f:
        f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(5):
        params, state, loss = train(params, state, make_batch(jax.random.PRNGKey(i)))
        print(i, float(loss))
    print(float(sum(jnp.abs(p).sum() for p in jax.tree.leaves(params))))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "b.hlo"))
