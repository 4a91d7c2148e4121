"""Secondary-structure tagging: windowed encoder with a linear-chain CRF on top."""
import sys
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.nn import logsumexp

N_AA, N_TAG, DIM, WIN = 21, 4, 8, 2


def init(key):
    k = jax.random.split(key, 5)
    s = 0.3
    return {
        "embed": s * jax.random.normal(k[0], (N_AA, DIM)),
        "w1": s * jax.random.normal(k[1], ((2 * WIN + 1) * DIM, DIM)),
        "b1": jnp.zeros(DIM),
        "w2": s * jax.random.normal(k[2], (DIM, N_TAG)),
        "b2": jnp.zeros(N_TAG),
        "trans": s * jax.random.normal(k[3], (N_TAG, N_TAG)),
        "start": s * jax.random.normal(k[4], (N_TAG,)),
        "end": jnp.zeros(N_TAG),
    }


def emissions(params, aa):
    """aa: [length] -> [length, tags]"""
    x = params["embed"][aa]
    padded = jnp.pad(x, ((WIN, WIN), (0, 0)))
    windows = jnp.concatenate([padded[i:i + x.shape[0]] for i in range(2 * WIN + 1)], axis=-1)
    h = jnp.tanh(windows @ params["w1"] + params["b1"])
    return h @ params["w2"] + params["b2"]


def path_score(params, emit, tags, mask):
    idx = jnp.arange(tags.shape[0])
    unary = jnp.sum(emit[idx, tags] * mask)
    pair = jnp.sum(params["trans"][tags[:-1], tags[1:]] * mask[1:])
    last = jnp.sum(mask).astype(jnp.int32) - 1
    return params["start"][tags[0]] + unary + pair + params["end"][tags[last]]


def log_partition(params, emit, mask):
    def advance(alpha, inp):
        e, m = inp
        new = logsumexp(alpha[:, None] + params["trans"], axis=0) + e
        return jnp.where(m > 0, new, alpha), None

    alpha0 = params["start"] + emit[0]
    alpha, _ = jax.lax.scan(advance, alpha0, (emit[1:], mask[1:]))
    return logsumexp(alpha + params["end"])


def sequence_nll(params, aa, tags, mask):
    emit = emissions(params, aa)
    return log_partition(params, emit, mask) - path_score(params, emit, tags, mask)


def loss_fn(params, batch):
    nll = jax.vmap(sequence_nll, in_axes=(None, 0, 0, 0))(
        params, batch["aa"], batch["tags"], batch["mask"])
    return jnp.sum(nll) / jnp.sum(batch["mask"])


tx = optax.adamw(2e-3, weight_decay=1e-3)


def step(params, opt_state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def make_batch(rng, n=3, length=9):
    lens = rng.integers(4, length + 1, n)
    return {
        "aa": rng.integers(0, N_AA, (n, length)).astype(np.int32),
        "tags": rng.integers(0, N_TAG, (n, length)).astype(np.int32),
        "mask": (np.arange(length)[None] < lens[:, None]).astype(np.float32),
    }


def main(out):
    rng = np.random.default_rng(6)
    params = init(jax.random.PRNGKey(0))
    opt_state = tx.init(params)
    batch = make_batch(rng)
    with open(out, "w") as f:
        f.write(jax.jit(step).lower(params, opt_state, batch).compiler_ir("hlo").as_hlo_module().to_string())
    run = jax.jit(step)
    for i in range(6):
        params, opt_state, loss = run(params, opt_state, make_batch(rng))
        total = sum(float(np.abs(np.asarray(v, np.float64)).sum()) for v in jax.tree.leaves(params))
        print(i, "%.7f %.7f" % (float(loss), total))


if __name__ == "__main__":
    main(sys.argv[1])
