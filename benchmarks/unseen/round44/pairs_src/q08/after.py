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
    inv = jax.lax.rsqrt(x.var(-1, keepdims=True) + eps)
    return (x - mu) * (inv * p["scale"]) + p["bias"]


def row_attention(p, msa, pair, mask):
    """One alignment: msa [rows, len, dim], pair [len, len, c], mask [len]."""
    x = layer_norm(p["ln"], msa)
    heads = {n: p[n].reshape(DIM, HEADS, HD) for n in "qkv"}
    q = jnp.einsum("rld,dhc->rlhc", x, heads["q"]) * HD ** -0.5
    k = jnp.einsum("rld,dhc->rlhc", x, heads["k"])
    v = jnp.einsum("rld,dhc->rlhc", x, heads["v"])
    bias = jnp.einsum("ijc,ch->hij", pair, p["bias"])
    logits = jnp.einsum("rihc,rjhc->rhij", q, k) + bias
    w = jax.nn.softmax(jnp.where(mask, logits, -1e9), axis=-1)
    out = jnp.einsum("rhij,rjhc->rihc", w, v).reshape(ROWS, LEN, HEADS * HD)
    gate = jax.nn.sigmoid(x @ p["gate"]["w"] + p["gate"]["b"])
    return msa + (out * gate) @ p["o"]


def contact_logits(p, msa):
    left = msa @ p["left"]
    outer = jnp.einsum("ria,rjb->ijab", left, left) / ROWS
    z = jnp.einsum("ijab,ab->ij", outer, p["contact"].reshape(4, 4))
    return 0.5 * (z + z.T)


def protein_loss(p, ex):
    msa = jnp.take(p["emb"], ex["tokens"], axis=0)
    msa = row_attention(p, msa, ex["pair"], ex["mask"])
    z = contact_logits(p, msa)
    bce = optax.sigmoid_binary_cross_entropy(z, ex["contacts"])
    pm = jnp.outer(ex["mask"], ex["mask"]).astype(z.dtype)
    return jnp.vdot(bce, pm) / pm.sum()


def loss_fn(p, batch):
    return jax.vmap(protein_loss, in_axes=(None, 0))(p, batch).mean()


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
