"""Secondary structure tagging of protein fragments: window features and a linear-chain CRF."""
import os
import sys

import jax
import jax.numpy as jnp

AMINO = 21
TAGS = 4
LENGTH = 9
LR, B1, B2, EPS = 3e-3, 0.9, 0.999, 1e-8


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


def init_state(params):
    return {
        "count": jnp.zeros([], jnp.int32),
        "mu": jax.tree.map(jnp.zeros_like, params),
        "nu": jax.tree.map(jnp.zeros_like, params),
    }


def emissions(params, seq):
    h = params["embed"][seq]
    left = jnp.concatenate([jnp.zeros_like(h[:1]), h[:-1]])
    right = jnp.concatenate([h[1:], jnp.zeros_like(h[:1])])
    win = jnp.concatenate([left, h, right], axis=-1)
    z = jnp.tanh(win @ params["w1"] + params["b1"])
    return z @ params["w2"] + params["b2"]


def path_score(params, emit, tags, mask):
    rows = jnp.arange(LENGTH)
    score = jnp.sum(emit[rows, tags] * mask)
    score = score + params["start"][tags[0]]
    moves = params["trans"][tags[:-1], tags[1:]]
    return score + jnp.sum(moves * mask[1:])


def partition(params, emit, mask):
    def body(alpha, inputs):
        e, m = inputs
        scores = alpha[:, None] + params["trans"] + e[None, :]
        new = jax.nn.logsumexp(scores, axis=0)
        return jnp.where(m > 0, new, alpha), None

    alpha = params["start"] + emit[0]
    alpha, _ = jax.lax.scan(body, alpha, (emit[1:], mask[1:]))
    return jax.nn.logsumexp(alpha)


def sequence_nll(params, seq, tags, mask):
    emit = emissions(params, seq)
    return partition(params, emit, mask) - path_score(params, emit, tags, mask)


def loss_fn(params, batch):
    nll = jax.vmap(sequence_nll, in_axes=(None, 0, 0, 0))(
        params, batch["seq"], batch["tags"], batch["mask"]
    )
    return jnp.sum(nll) / jnp.sum(batch["mask"])


def adam(params, grads, state):
    count = state["count"] + 1
    mu = jax.tree.map(lambda m, g: B1 * m + (1 - B1) * g, state["mu"], grads)
    nu = jax.tree.map(lambda v, g: B2 * v + (1 - B2) * g * g, state["nu"], grads)
    c1 = 1 - B1 ** count.astype(jnp.float32)
    c2 = 1 - B2 ** count.astype(jnp.float32)
    params = jax.tree.map(
        lambda p, m, v: p - LR * (m / c1) / (jnp.sqrt(v / c2) + EPS), params, mu, nu
    )
    return params, {"count": count, "mu": mu, "nu": nu}


def step(params, state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    params, state = adam(params, grads, state)
    return params, state, loss


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
    state = init_state(params)
    train = jax.jit(step)
    lowered = train.lower(params, state, make_batch(jax.random.PRNGKey(0)))
    with open(path, "w") as f:
        f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(5):
        params, state, loss = train(params, state, make_batch(jax.random.PRNGKey(i)))
        print(i, float(loss))
    print(float(sum(jnp.abs(p).sum() for p in jax.tree.leaves(params))))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "a.hlo"))
