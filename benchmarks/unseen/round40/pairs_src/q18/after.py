"""Particle jets: masked set attention with pairwise bias, tagger's training step (flax)."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

JETS, PARTS, FEAT, DIM, HEADS, CLASSES = 4, 9, 5, 12, 3, 4
HD = DIM // HEADS


class PairBias(nn.Module):
    @nn.compact
    def __call__(self, coords):
        deta = coords[:, :, None, 0] - coords[:, None, :, 0]
        dphi = coords[:, :, None, 1] - coords[:, None, :, 1]
        dr = jnp.log(jnp.sqrt(deta ** 2 + dphi ** 2 + 1e-6))
        return nn.Dense(HEADS)(jax.nn.gelu(nn.Dense(6)(dr[..., None])))


class SetAttention(nn.Module):
    @nn.compact
    def __call__(self, x, mask, bias):
        n = x.shape[0]
        h = nn.LayerNorm()(x)
        q = nn.Dense(DIM, use_bias=False, name="q")(h)
        k = nn.Dense(DIM, use_bias=False, name="k")(h)
        v = nn.Dense(DIM, use_bias=False, name="v")(h)
        q, k, v = (t.reshape(n, PARTS, HEADS, HD) for t in (q, k, v))
        logits = jnp.einsum("bqhd,bkhd->bhqk", q * HD ** -0.5, k)
        logits = logits + jnp.einsum("bqkh->bhqk", bias)
        logits = jnp.where(mask[:, None, None, :], logits, -1e9)
        w = jnp.exp(logits - jax.lax.stop_gradient(logits.max(-1, keepdims=True)))
        o = jnp.einsum("bhqk,bkhd->bqhd", w, v) / jnp.einsum("bhqk->bqh", w)[..., None]
        o = o.reshape(n, PARTS, DIM)
        return x + nn.Dense(DIM, name="o")(o)


class Tagger(nn.Module):
    @nn.compact
    def __call__(self, feats, mask):
        bias = PairBias()(feats)
        x = nn.Dense(DIM)(feats)
        for _ in range(2):
            x = SetAttention()(x, mask, bias)
        m = mask[..., None].astype(x.dtype)
        pooled = (x * m).sum(1) / m.sum(1)
        return nn.Dense(CLASSES)(pooled)


model = Tagger()
tx = optax.sgd(0.05, momentum=0.9)


def loss_fn(params, feats, mask, label):
    logits = model.apply(params, feats, mask)
    return optax.softmax_cross_entropy_with_integer_labels(logits, label).mean()


def step(params, opt_state, feats, mask, label):
    loss, grads = jax.value_and_grad(loss_fn)(params, feats, mask, label)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def batch(seed):
    k = jax.random.split(jax.random.PRNGKey(seed), 3)
    feats = jax.random.normal(k[0], (JETS, PARTS, FEAT))
    count = jax.random.randint(k[1], (JETS, 1), 3, PARTS + 1)
    mask = jnp.arange(PARTS)[None] < count
    return feats, mask, jax.random.randint(k[2], (JETS,), 0, CLASSES)


if __name__ == "__main__":
    params = model.init(jax.random.PRNGKey(0), *batch(0)[:2])
    state = tx.init(params)
    low = jax.jit(step).lower(params, state, *batch(0))
    open(sys.argv[1], "w").write(low.compiler_ir("hlo").as_hlo_module().to_string())
    run = jax.jit(step)
    for it in range(5):
        params, state, loss = run(params, state, *batch(it))
        print(it, "%.7f" % float(loss))
    print("checksum %.7f" % sum(float(jnp.abs(p).sum()) for p in jax.tree_util.tree_leaves(params)))
