"""Linear-chain CRF over a windowed residue encoder (protein secondary structure)."""
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.nn import logsumexp

N_AA, DIM, K, WINDOW = 21, 8, 3, 1


def init(key):
    k = jax.random.split(key, 4)
    width = DIM * (2 * WINDOW + 1)
    return {
        "emb": jax.random.normal(k[0], (N_AA, DIM)) * 0.5,
        "w1": jax.random.normal(k[1], (width, 12)) / width ** 0.5,
        "b1": jnp.zeros(12),
        "w2": jax.random.normal(k[2], (12, K)) / 12 ** 0.5,
        "b2": jnp.zeros(K),
        "trans": jax.random.normal(k[3], (K, K)) * 0.1,
        "start": jnp.zeros(K),
        "end": jnp.zeros(K),
    }


def emissions(p, tokens):
    """tokens [L] -> [L, K]"""
    e = jnp.pad(jnp.take(p["emb"], tokens, axis=0), ((WINDOW, WINDOW), (0, 0)))
    n = tokens.shape[0]
    ctx = jnp.concatenate([e[i:i + n] for i in range(2 * WINDOW + 1)], axis=-1)
    return jnp.tanh(ctx @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]


def log_partition(p, em, mask):
    def body(alpha, inp):
        e, m = inp
        return jnp.where(m > 0, logsumexp(alpha[:, None] + p["trans"], axis=0) + e, alpha), None

    alpha, _ = jax.lax.scan(body, p["start"] + em[0], (em[1:], mask[1:]))
    return logsumexp(alpha + p["end"])


def gold_score(p, em, labels, mask):
    unary = jnp.take_along_axis(em, labels[:, None], axis=1)[:, 0]
    pair = p["trans"][labels[:-1], labels[1:]]
    last = labels[mask.sum().astype(jnp.int32) - 1]
    return jnp.vdot(unary, mask) + jnp.vdot(pair, mask[1:]) + p["start"][labels[0]] + p["end"][last]


def sequence_nll(p, tokens, labels, mask):
    em = emissions(p, tokens)
    return log_partition(p, em, mask) - gold_score(p, em, labels, mask)


def loss_fn(p, tokens, labels, mask):
    return jax.vmap(sequence_nll, in_axes=(None, 0, 0, 0))(p, tokens, labels, mask).sum() / mask.sum()


tx = optax.sgd(0.05, momentum=0.9)


def train_step(params, opt_state, tokens, labels, mask):
    loss, grads = jax.value_and_grad(loss_fn)(params, tokens, labels, mask)
    updates, opt_state = tx.update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state, loss


def make_batch(seed, B=3, L=9):
    rng = np.random.default_rng(seed)
    lengths = np.array([9, 6, 7])
    mask = (np.arange(L)[None] < lengths[:, None]).astype(np.float32)
    return rng.integers(0, N_AA, (B, L)).astype(np.int32), rng.integers(0, K, (B, L)).astype(np.int32), mask


def main(out):
    params = init(jax.random.PRNGKey(0))
    opt_state = tx.init(params)
    step = jax.jit(train_step)
    with open(out, "w") as f:
        f.write(step.lower(params, opt_state, *make_batch(0)).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(8):
        params, opt_state, loss = step(params, opt_state, *make_batch(i))
        print(i, "%.7f" % loss, "%.6f" % sum(jnp.abs(v).sum() for v in params.values()))


if __name__ == "__main__":
    main(sys.argv[1])
