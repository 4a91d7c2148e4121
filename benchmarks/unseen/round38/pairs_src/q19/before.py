"""Linear-chain CRF over a windowed residue encoder (protein secondary structure)."""
import sys

import jax
import jax.numpy as jnp
import numpy as np

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


def log_sum_exp(x, axis):
    m = jax.lax.stop_gradient(x.max(axis=axis, keepdims=True))
    return jnp.log(jnp.exp(x - m).sum(axis=axis)) + jnp.squeeze(m, axis)


def emissions(p, tokens):
    e = p["emb"][tokens]
    left = jnp.pad(e, ((0, 0), (1, 0), (0, 0)))[:, :-1]
    right = jnp.pad(e, ((0, 0), (0, 1), (0, 0)))[:, 1:]
    h = jnp.tanh(jnp.concatenate([left, e, right], -1) @ p["w1"] + p["b1"])
    return h @ p["w2"] + p["b2"]


def log_partition(p, em, mask):
    """em [B, L, K], mask [B, L]"""

    def body(alpha, inp):
        e, m = inp
        new = log_sum_exp(alpha[:, :, None] + p["trans"][None] + e[:, None, :], axis=1)
        return jnp.where(m[:, None] > 0, new, alpha), None

    alpha0 = p["start"] + em[:, 0]
    xs = (em[:, 1:].transpose(1, 0, 2), mask[:, 1:].T)
    alpha, _ = jax.lax.scan(body, alpha0, xs)
    return log_sum_exp(alpha + p["end"], axis=1)


def gold_score(p, em, labels, mask):
    hot = jax.nn.one_hot(labels, K)
    score = ((em * hot).sum(-1) * mask).sum(1)
    pair = jnp.einsum("bli,ij,blj->bl", hot[:, :-1], p["trans"], hot[:, 1:])
    score = score + (pair * mask[:, 1:]).sum(1)
    is_last = mask - jnp.pad(mask[:, 1:], ((0, 0), (0, 1)))
    last = (hot * is_last[:, :, None]).sum(1)
    return score + hot[:, 0] @ p["start"] + last @ p["end"]


def loss_fn(p, tokens, labels, mask):
    em = emissions(p, tokens)
    nll = log_partition(p, em, mask) - gold_score(p, em, labels, mask)
    return nll.sum() / mask.sum()


def train_step(params, velocity, tokens, labels, mask):
    loss, grads = jax.value_and_grad(loss_fn)(params, tokens, labels, mask)
    velocity = jax.tree_util.tree_map(lambda v, g: 0.9 * v + g, velocity, grads)
    params = jax.tree_util.tree_map(lambda w, v: w - 0.05 * v, params, velocity)
    return params, velocity, loss


def make_batch(seed, B=3, L=9):
    rng = np.random.default_rng(seed)
    lengths = np.array([9, 6, 7])
    mask = (np.arange(L)[None] < lengths[:, None]).astype(np.float32)
    return rng.integers(0, N_AA, (B, L)).astype(np.int32), rng.integers(0, K, (B, L)).astype(np.int32), mask


def main(out):
    params = init(jax.random.PRNGKey(0))
    velocity = jax.tree_util.tree_map(jnp.zeros_like, params)
    step = jax.jit(train_step)
    with open(out, "w") as f:
        f.write(step.lower(params, velocity, *make_batch(0)).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(8):
        params, velocity, loss = step(params, velocity, *make_batch(i))
        print(i, "%.7f" % loss, "%.6f" % sum(jnp.abs(v).sum() for v in params.values()))


if __name__ == "__main__":
    main(sys.argv[1])
