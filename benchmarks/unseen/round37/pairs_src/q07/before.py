"""Nanopore base calling: conv encoder with a linear-chain CRF on top."""
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

STATES, FRAMES, HID, BATCH = 5, 10, 12, 3


def init(key):
    k1, k2, k3, k4 = jax.random.split(key, 4)
    return {
        "conv1": {"w": 0.3 * jax.random.normal(k1, (5, 1, HID)), "b": jnp.zeros(HID)},
        "conv2": {"w": 0.2 * jax.random.normal(k2, (3, HID, HID)), "b": jnp.zeros(HID)},
        "emit": {"w": 0.3 * jax.random.normal(k3, (HID, STATES)), "b": jnp.zeros(STATES)},
        "trans": 0.1 * jax.random.normal(k4, (STATES, STATES)),
        "start": jnp.zeros(STATES),
    }


def conv(p, x, stride):
    y = jax.lax.conv_general_dilated(x, p["w"], (stride,), "SAME",
                                     dimension_numbers=("NWC", "WIO", "NWC"))
    return y + p["b"]


def encode(params, signal):
    h = jax.nn.gelu(conv(params["conv1"], signal[..., None], 2))
    h = jax.nn.gelu(conv(params["conv2"], h, 2))
    return h @ params["emit"]["w"] + params["emit"]["b"]


def path_score(params, em, labels):
    """Score of the labelled path; em (B, T, S), labels (B, T)."""
    rows = jnp.arange(em.shape[0])
    score = params["start"][labels[:, 0]] + em[rows, 0, labels[:, 0]]
    for t in range(1, em.shape[1]):
        score = score + params["trans"][labels[:, t - 1], labels[:, t]]
        score = score + em[rows, t, labels[:, t]]
    return score


def log_partition(params, em):
    alpha = params["start"] + em[:, 0]
    for t in range(1, em.shape[1]):
        alpha = jax.nn.logsumexp(alpha[:, :, None] + params["trans"], axis=1) + em[:, t]
    return jax.nn.logsumexp(alpha, axis=-1)


def nll(params, signal, labels):
    em = encode(params, signal)
    return jnp.mean(log_partition(params, em) - path_score(params, em, labels))


tx = optax.chain(optax.clip(1.0), optax.adabelief(5e-3))


def train_step(params, opt_state, signal, labels):
    loss, grads = jax.value_and_grad(nll)(params, signal, labels)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def batch(seed):
    r = np.random.default_rng(seed)
    labels = r.integers(0, STATES, size=(BATCH, FRAMES)).astype(np.int32)
    signal = np.repeat(labels, 4, axis=1) * 0.5 + 0.1 * r.normal(size=(BATCH, 4 * FRAMES))
    return signal.astype(np.float32), labels


def main(steps=5):
    params = init(jax.random.PRNGKey(1))
    opt_state = tx.init(params)
    step = jax.jit(train_step)
    if len(sys.argv) > 1:
        ir = step.lower(params, opt_state, *batch(0)).compiler_ir("hlo")
        with open(sys.argv[1], "w") as fh:
            fh.write(ir.as_hlo_module().to_string())
        return None
    for i in range(steps):
        params, opt_state, loss = step(params, opt_state, *batch(i))
        print(i, float(loss))
    return params


if __name__ == "__main__":
    main()
