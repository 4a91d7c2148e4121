"""Bidirectional GRU tagger for named entities; lax.scan over time."""
import jax
import jax.numpy as jnp
import numpy as np

VOCAB, EMB, HID, TAGS, BATCH, LENGTH = 120, 16, 24, 7, 6, 14
LR = 0.1


def gru_params(key, n_in, n_hid):
    k1, k2 = jax.random.split(key)
    return {
        "wx": jax.random.normal(k1, (n_in, 3 * n_hid)) * n_in**-0.5,
        "wh": jax.random.normal(k2, (n_hid, 3 * n_hid)) * n_hid**-0.5,
        "b": jnp.zeros(3 * n_hid),
    }


def init(key):
    ks = jax.random.split(key, 4)
    return {
        "embed": jax.random.normal(ks[0], (VOCAB, EMB)) * 0.1,
        "fwd": gru_params(ks[1], EMB, HID),
        "bwd": gru_params(ks[2], EMB, HID),
        "tag": {"w": jax.random.normal(ks[3], (2 * HID, TAGS)) * 0.1, "b": jnp.zeros(TAGS)},
    }


def gru_cell(p, h, gates_x):
    rx, zx, nx = jnp.split(gates_x, 3, axis=-1)
    rh, zh, nh = jnp.split(h @ p["wh"], 3, axis=-1)
    r, z = jax.nn.sigmoid(rx + rh), jax.nn.sigmoid(zx + zh)
    n = jnp.tanh(nx + r * nh)
    return (1 - z) * n + z * h


def run_direction(p, x, mask, reverse):
    """x: [time, batch, emb], mask: [time, batch]; state is held on padding."""
    gates = x @ p["wx"] + p["b"]

    def body(h, inp):
        g, m = inp
        new = jnp.where(m[:, None], gru_cell(p, h, g), h)
        return new, new

    h0 = jnp.zeros((x.shape[1], HID))
    _, hs = jax.lax.scan(body, h0, (gates, mask), reverse=reverse)
    return hs


def tag_scores(params, tokens, mask):
    x = params["embed"][tokens.T]
    left = run_direction(params["fwd"], x, mask.T, reverse=False)
    right = run_direction(params["bwd"], x, mask.T, reverse=True)
    h = jnp.concatenate([left, right], axis=-1)
    return h @ params["tag"]["w"] + params["tag"]["b"]


def loss_fn(params, batch):
    tokens, tags, mask = batch
    logp = jax.nn.log_softmax(tag_scores(params, tokens, mask))
    nll = -jnp.sum(jax.nn.one_hot(tags.T, TAGS) * logp, axis=-1)
    return jnp.sum(nll * mask.T) / jnp.sum(mask)


@jax.jit
def sgd_step(params, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(grads)))
    scale = jnp.minimum(1.0, 5.0 / norm)
    return jax.tree.map(lambda p, g: p - LR * scale * g, params, grads), loss


def sentences(rng):
    tokens = rng.integers(1, VOCAB, (BATCH, LENGTH))
    lengths = rng.integers(4, LENGTH + 1, (BATCH, 1))
    return tokens, tokens % TAGS, np.arange(LENGTH)[None] < lengths


def main():
    params = init(jax.random.PRNGKey(0))
    rng = np.random.default_rng(4)
    for i in range(3):
        params, loss = sgd_step(params, sentences(rng))
        print(f"{i} loss={float(loss):.4f}")


if __name__ == "__main__":
    main()
