"""Protein secondary structure, residue tagging: bfloat16 attention with relative-position bias, float32 master weights."""
import os
import sys

import jax
import jax.numpy as jnp
import optax

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.environ.get("HLO_OUT", os.path.join(HERE, "b.hlo"))
RESIDUES, CLASSES, HEADS, WIDTH, SPAN = 21, 8, 2, 8, 4


def init(key):
    k = iter(jax.random.split(key, 8))
    mat = lambda *s: jax.random.normal(next(k), s) / s[0] ** 0.5
    return {
        "embed": mat(RESIDUES, WIDTH),
        "qkv": mat(WIDTH, 3 * WIDTH),
        "rel": jnp.zeros((HEADS, 2 * SPAN + 1)),
        "proj": mat(WIDTH, WIDTH),
        "up": mat(WIDTH, 2 * WIDTH),
        "down": mat(2 * WIDTH, WIDTH),
        "scale": jnp.ones((2, WIDTH)),
        "head": mat(WIDTH, CLASSES),
    }


def rms_norm(x, scale):
    x32 = x.astype(jnp.float32)
    x32 = x32 * jax.lax.rsqrt(jnp.mean(x32 ** 2, axis=-1, keepdims=True) + 1e-6)
    return x32.astype(x.dtype) * scale


def attention(p, x, mask):
    b, n, _ = x.shape
    q, k, v = jnp.split(x @ p["qkv"], 3, axis=-1)
    q, k, v = (t.reshape(b, n, HEADS, -1) for t in (q, k, v))
    offset = jnp.clip(jnp.arange(n)[:, None] - jnp.arange(n)[None], -SPAN, SPAN) + SPAN
    logits = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (WIDTH // HEADS) ** 0.5
    logits = logits + p["rel"][:, offset]
    logits = jnp.where(mask[:, None, None], logits, -1e4)
    weights = jax.nn.softmax(logits, axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(b, n, -1) @ p["proj"]


def forward(params, seq, mask):
    p = jax.tree_util.tree_map(lambda t: t.astype(jnp.bfloat16), params)
    x = p["embed"][seq]
    x = x + attention(p, rms_norm(x, p["scale"][0]), mask)
    x = x + jax.nn.silu(rms_norm(x, p["scale"][1]) @ p["up"]) @ p["down"]
    return (x @ p["head"]).astype(jnp.float32)


def loss_fn(params, seq, mask, labels):
    ce = optax.softmax_cross_entropy_with_integer_labels(forward(params, seq, mask), labels)
    return jnp.sum(ce * mask) / jnp.sum(mask)


tx = optax.lion(1e-3, weight_decay=0.01)


def step(params, opt_state, seq, mask, labels):
    loss, grads = jax.value_and_grad(loss_fn)(params, seq, mask, labels)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def main(steps=2):
    k1, k2, k3 = jax.random.split(jax.random.PRNGKey(7), 3)
    params = init(k1)
    seq = jax.random.randint(k2, (3, 10), 0, RESIDUES)
    labels = jax.random.randint(k3, (3, 10), 0, CLASSES)
    mask = jnp.arange(10)[None] < jnp.array([[10], [8], [5]])
    state = tx.init(params)
    fn = jax.jit(step)
    with open(OUT, "w") as f:
        f.write(fn.lower(params, state, seq, mask, labels).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(steps):
        params, state, loss = fn(params, state, seq, mask, labels)
        print(i, float(loss), file=sys.stderr)


if __name__ == "__main__":
    main()
