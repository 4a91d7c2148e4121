"""Residue-contact prediction: gated row attention with pair bias over a small
alignment, outer-product mean to pair features.  JAX + optax."""
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

ROWS, LEN, DIM, HEADS, HD, PAIR, BATCH = 4, 9, 12, 3, 4, 5, 2


def init(key):
    ks = jax.random.split(key, 9)

    def mat(k, *shape):
        return jax.random.normal(k, shape) / np.sqrt(shape[0])

    return {
        "emb": mat(ks[0], 21, DIM),
        "ln": {"scale": jnp.ones(DIM), "bias": jnp.zeros(DIM)},
        "q": mat(ks[1], DIM, HEADS * HD),
        "k": mat(ks[2], DIM, HEADS * HD),
        "v": mat(ks[3], DIM, HEADS * HD),
        "gate": {"w": mat(ks[4], DIM, HEADS * HD), "b": jnp.ones(HEADS * HD)},
        "o": mat(ks[5], HEADS * HD, DIM),
        "bias": mat(ks[6], PAIR, HEADS),
        "left": mat(ks[7], DIM, 4),
        "contact": mat(ks[8], 16, 1),
    }


def layer_norm(p, x, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return (x - mu) / jnp.sqrt(var + eps) * p["scale"] + p["bias"]


def split_heads(x):
    b, s, r, _ = x.shape
    return x.reshape(b, s, r, HEADS, HD).transpose(0, 1, 3, 2, 4)


def row_attention(p, msa, pair, mask):
    x = layer_norm(p["ln"], msa)
    q = split_heads(x @ p["q"])
    k = split_heads(x @ p["k"])
    v = split_heads(x @ p["v"])
    logits = q @ k.transpose(0, 1, 2, 4, 3) / np.sqrt(HD)
    bias = (pair @ p["bias"]).transpose(0, 3, 1, 2)[:, None]
    logits = logits + bias
    logits = jnp.where(mask[:, None, None, None, :], logits, -1e9)
    logits = logits - jax.lax.stop_gradient(logits.max(-1, keepdims=True))
    w = jnp.exp(logits)
    w = w / w.sum(-1, keepdims=True)
    out = (w @ v).transpose(0, 1, 3, 2, 4)
    out = out.reshape(out.shape[:3] + (HEADS * HD,))
    gate = 1.0 / (1.0 + jnp.exp(-(x @ p["gate"]["w"] + p["gate"]["b"])))
    return msa + (out * gate) @ p["o"]


def contact_logits(p, msa):
    left = msa @ p["left"]
    outer = left[:, :, :, None, :, None] * left[:, :, None, :, None, :]
    outer = outer.mean(1)
    outer = outer.reshape(outer.shape[:3] + (16,))
    z = (outer @ p["contact"])[..., 0]
    return 0.5 * (z + z.transpose(0, 2, 1))


def loss_fn(p, batch):
    msa = p["emb"][batch["tokens"]]
    msa = row_attention(p, msa, batch["pair"], batch["mask"])
    z = contact_logits(p, msa)
    y = batch["contacts"]
    bce = jnp.logaddexp(0.0, z) - z * y
    pm = batch["mask"][:, :, None] & batch["mask"][:, None, :]
    pm = pm.astype(z.dtype)
    per_protein = (bce * pm).sum((1, 2)) / pm.sum((1, 2))
    return per_protein.mean()


tx = optax.adabelief(2e-3)


def train_step(p, opt_state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(p, batch)
    updates, opt_state = tx.update(grads, opt_state, p)
    return optax.apply_updates(p, updates), opt_state, loss


def make_batch(rng):
    contacts = (rng.random((BATCH, LEN, LEN)) < 0.2).astype(np.float32)
    lengths = rng.integers(5, LEN + 1, size=BATCH)
    return {
        "tokens": rng.integers(0, 21, size=(BATCH, ROWS, LEN)).astype(np.int32),
        "pair": rng.normal(size=(BATCH, LEN, LEN, PAIR)).astype(np.float32),
        "mask": np.arange(LEN)[None, :] < lengths[:, None],
        "contacts": np.maximum(contacts, contacts.transpose(0, 2, 1)),
    }


def main(out):
    rng = np.random.default_rng(83)
    params = init(jax.random.PRNGKey(0))
    state = tx.init(params)
    batch = make_batch(rng)
    step = jax.jit(train_step)
    text = step.lower(params, state, batch).compiler_ir("hlo").as_hlo_module().to_string()
    with open(out, "w") as f:
        f.write(text)
    for i in range(5):
        params, state, loss = step(params, state, make_batch(rng))
        total = sum(float(jnp.abs(x).sum()) for x in jax.tree_util.tree_leaves(params))
        print(i, f"{float(loss):.7f} {total:.6f}")


if __name__ == "__main__":
    main(sys.argv[1])
