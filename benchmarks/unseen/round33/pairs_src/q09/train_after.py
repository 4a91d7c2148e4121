"""Masked residue modelling on protein fragments, data parallel over the devices with shard_map."""
import argparse
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, PartitionSpec as P

VOCAB, MASK_ID, LENGTH, DIM, HEADS = 24, 23, 20, 16, 2
PAD_ID = 0


def init_params(key):
    k = jax.random.split(key, 8)

    def mat(kk, i, o):
        return jax.random.normal(kk, (i, o)) * i ** -0.5

    return {
        "tok": 0.3 * jax.random.normal(k[0], (VOCAB, DIM)),
        "pos": 0.1 * jax.random.normal(k[1], (LENGTH, DIM)),
        "ln1": jnp.ones(DIM), "ln2": jnp.ones(DIM),
        "qkv": mat(k[2], DIM, 3 * DIM), "proj": mat(k[3], DIM, DIM),
        "w1": mat(k[4], DIM, 2 * DIM), "w2": mat(k[5], 2 * DIM, DIM),
        "bias": jnp.zeros(VOCAB),
    }


def rms_norm(x, g):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * g


def logits_fn(p, tokens):
    valid = tokens != PAD_ID
    h = p["tok"][tokens] + p["pos"]
    b, n, _ = h.shape
    q, k, v = jnp.split(rms_norm(h, p["ln1"]) @ p["qkv"], 3, axis=-1)
    q, k, v = (a.reshape(b, n, HEADS, -1) for a in (q, k, v))
    s = jnp.einsum("bnhd,bmhd->bhnm", q, k) * (DIM // HEADS) ** -0.5
    s = jnp.where(valid[:, None, None, :], s, -1e9)
    o = jnp.einsum("bhnm,bmhd->bnhd", jax.nn.softmax(s, -1), v).reshape(b, n, DIM)
    h = h + o @ p["proj"]
    h = h + jax.nn.relu(rms_norm(h, p["ln2"]) @ p["w1"]) @ p["w2"]
    return h @ p["tok"].T + p["bias"]


def corrupt(key, tokens):
    picked = (jax.random.uniform(key, tokens.shape) < 0.15) & (tokens != PAD_ID)
    return jnp.where(picked, MASK_ID, tokens), picked


def local_loss(params, key, tokens):
    inputs, picked = corrupt(key, tokens)
    ce = optax.softmax_cross_entropy_with_integer_labels(logits_fn(params, inputs), tokens)
    weight = picked.astype(jnp.float32)
    return jnp.sum(ce * weight) / jnp.maximum(jnp.sum(weight), 1.0)


def make_train_step(mesh, tx, max_norm):
    @partial(jax.shard_map, mesh=mesh, in_specs=(P(), P(), P(), P("data")), out_specs=(P(), P(), P()), check_vma=False)
    def sharded(params, opt_state, key, tokens):
        key = jax.random.fold_in(key, jax.lax.axis_index("data"))
        loss, grads = jax.value_and_grad(local_loss)(params, key, tokens)
        scale = jnp.minimum(1.0, max_norm / (optax.global_norm(grads) + 1e-6))
        grads = jax.tree.map(lambda g: g * scale, grads)
        loss, grads = jax.lax.pmean((loss, grads), axis_name="data")
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    return jax.jit(sharded)


def fragments(rng, n):
    tokens = rng.integers(1, 21, (n, LENGTH))
    tokens[:, 1::3] = np.minimum(tokens[:, ::3][:, :tokens[:, 1::3].shape[1]] + 1, 20)
    lengths = rng.integers(6, LENGTH + 1, (n, 1))
    return np.where(np.arange(LENGTH) < lengths, tokens, PAD_ID).astype(np.int32)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=8)
    ap.add_argument("--dump", default=None)
    args = ap.parse_args()
    mesh = Mesh(np.array(jax.devices()), ("data",))
    rng = np.random.default_rng(4)
    params = init_params(jax.random.PRNGKey(4))
    tx = optax.adamw(2e-3, b2=0.98, weight_decay=0.01)
    opt_state = tx.init(params)
    step = make_train_step(mesh, tx, max_norm=0.5)
    key = jax.random.PRNGKey(5)
    for i in range(args.steps):
        key, sub = jax.random.split(key)
        tokens = fragments(rng, 4 * mesh.size)
        if i == 0 and args.dump:
            open(args.dump, "w").write(step.lower(params, opt_state, sub, tokens).as_text(dialect="hlo"))
        params, opt_state, loss = step(params, opt_state, sub, tokens)
        print(i, f"{float(loss):.6f}")


if __name__ == "__main__":
    main()
