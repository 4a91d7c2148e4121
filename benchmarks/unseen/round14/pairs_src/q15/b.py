"""Character-level GRU language model over G-code programs, trained with Adam."""
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

VOCAB = 24
EMBED = 12
HIDDEN = 24
BATCH = 8
LENGTH = 20


def glorot(key, shape):
    bound = math.sqrt(6.0 / (shape[0] + shape[1]))
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


def init_params(key):
    k = jax.random.split(key, 8)
    return {
        "embed": 0.1 * jax.random.normal(k[0], (VOCAB, EMBED)),
        "gru": {
            "w_rz": glorot(k[1], (EMBED, 2 * HIDDEN)),
            "u_rz": glorot(k[2], (HIDDEN, 2 * HIDDEN)),
            "b_rz": jnp.zeros(2 * HIDDEN),
            "w_n": glorot(k[3], (EMBED, HIDDEN)),
            "u_n": glorot(k[4], (HIDDEN, HIDDEN)),
            "b_n": jnp.zeros(HIDDEN),
        },
        "out": {"kernel": glorot(k[5], (HIDDEN, VOCAB)), "bias": jnp.zeros(VOCAB)},
    }


def gru_cell(p, h, x):
    rz = jax.nn.sigmoid(x @ p["w_rz"] + h @ p["u_rz"] + p["b_rz"])
    r, z = jnp.split(rz, 2, axis=-1)
    n = jnp.tanh(x @ p["w_n"] + r * (h @ p["u_n"]) + p["b_n"])
    return (1.0 - z) * n + z * h


def logits_fn(params, tokens):
    x = params["embed"][tokens]                      # [B, T, E]

    def body(h, x_t):
        h = gru_cell(params["gru"], h, x_t)
        return h, h

    h0 = jnp.zeros((tokens.shape[0], HIDDEN))
    _, hs = jax.lax.scan(body, h0, jnp.swapaxes(x, 0, 1))
    return jnp.swapaxes(hs, 0, 1) @ params["out"]["kernel"] + params["out"]["bias"]


def loss_fn(params, tokens, mask):
    logits = logits_fn(params, tokens[:, :-1])
    logp = jax.nn.log_softmax(logits)
    nll = -jnp.take_along_axis(logp, tokens[:, 1:, None], axis=-1)[..., 0]
    m = mask[:, 1:]
    return jnp.sum(nll * m) / jnp.sum(m)


def adam_init(params):
    zeros = jax.tree.map(jnp.zeros_like, params)
    return {"mu": zeros, "nu": zeros, "count": jnp.zeros((), jnp.int32)}


def adam_update(grads, state, params, lr, b1=0.9, b2=0.98, eps=1e-8):
    count = state["count"] + 1
    mu = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state["mu"], grads)
    nu = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state["nu"], grads)
    c1 = 1 - b1 ** count.astype(jnp.float32)
    c2 = 1 - b2 ** count.astype(jnp.float32)
    new = jax.tree.map(
        lambda p, m, v: p - lr * (m / c1) / (jnp.sqrt(v / c2) + eps), params, mu, nu)
    return new, {"mu": mu, "nu": nu, "count": count}


@partial(jax.jit, static_argnames=("max_norm",))
def train_step(params, opt_state, tokens, mask, lr, max_norm=1.0):
    loss, grads = jax.value_and_grad(loss_fn)(params, tokens, mask)
    norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(grads)))
    scale = jnp.minimum(1.0, max_norm / (norm + 1e-6))
    grads = jax.tree.map(lambda g: g * scale, grads)
    params, opt_state = adam_update(grads, opt_state, params, lr)
    return params, opt_state, loss, norm


def sample_programs(rng):
    """Token strings of different length; zero is padding."""
    length = rng.integers(LENGTH // 2, LENGTH + 1, size=BATCH)
    tokens = rng.integers(1, VOCAB, size=(BATCH, LENGTH + 1))
    tokens[:, 1::4] = 3
    mask = (np.arange(LENGTH + 1)[None] <= length[:, None]).astype(np.float32)
    return jnp.asarray(tokens * mask.astype(np.int64), jnp.int32), jnp.asarray(mask)


def setup():
    params = init_params(jax.random.PRNGKey(0))
    rng = np.random.default_rng(0)
    return params, adam_init(params), rng


def main(steps=30):
    params, opt_state, rng = setup()
    for i in range(steps):
        tokens, mask = sample_programs(rng)
        lr = 3e-3 * min(1.0, (i + 1) / 10)
        params, opt_state, loss, norm = train_step(params, opt_state, tokens, mask, lr)
        if i % 10 == 9:
            print(f"{i + 1} loss {loss:.4f} norm {norm:.3f}")


if __name__ == "__main__":
    main()
