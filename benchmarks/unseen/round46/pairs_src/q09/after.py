"""Masked residue modelling on short peptides: one gated-attention layer, flax + optax."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

B, L, D, H, RES = 4, 10, 12, 2, 23
BIG = -1e9


class RMSNorm(nn.Module):
    @nn.compact
    def __call__(self, x):
        g = self.param("scale", nn.initializers.ones, (x.shape[-1],))
        ms = jnp.mean(jnp.square(x), axis=-1, keepdims=True)
        return x * jax.lax.rsqrt(ms + 1e-6) * g


class GatedAttention(nn.Module):
    @nn.compact
    def __call__(self, x, valid):
        init = nn.initializers.lecun_normal()
        wq, wk, wv = (self.param(n, init, (D, D)) for n in ("q", "k", "v"))
        wg, wo = self.param("gate", init, (D, D)), self.param("out", init, (D, D))
        bias = self.param("relpos", nn.initializers.normal(0.1), (H, 2 * L - 1))
        dh = D // H
        offset = jnp.arange(L)[:, None] - jnp.arange(L)[None, :] + L - 1

        def head(q, k, v, b, ok):
            """One head of one peptide: q, k, v [L, dh], b [L, L], ok [L]."""
            s = q @ k.T / jnp.sqrt(dh) + b
            return jax.nn.softmax(jnp.where(ok, s, BIG), axis=-1) @ v

        heads = jax.vmap(head, in_axes=(1, 1, 1, 0, None), out_axes=1)
        peptides = jax.vmap(heads, in_axes=(0, 0, 0, None, 0))
        q, k, v = (jnp.dot(x, w).reshape(B, L, H, dh) for w in (wq, wk, wv))
        ctx = peptides(q, k, v, bias[:, offset], valid).reshape(B, L, D)
        return jnp.dot(ctx * nn.sigmoid(jnp.dot(x, wg)), wo)


class PeptideModel(nn.Module):
    @nn.compact
    def __call__(self, tokens, valid):
        table = self.param("embed", nn.initializers.normal(0.3), (RES, D))
        x = table[tokens]
        x = x + GatedAttention(name="attn")(RMSNorm(name="n1")(x), valid)
        h = RMSNorm(name="n2")(x)
        a = nn.Dense(2 * D, use_bias=False, name="up")(h)
        b = nn.Dense(2 * D, use_bias=False, name="gate")(h)
        x = x + nn.Dense(D, name="down")(nn.silu(a) * b)
        x = RMSNorm(name="n3")(x)
        return jnp.einsum("bld,rd->blr", x, table)


model = PeptideModel()
tx = optax.chain(
    optax.scale_by_adam(b1=0.9, b2=0.98),
    optax.add_decayed_weights(0.01),
    optax.scale_by_learning_rate(3e-3),
)


def loss_fn(params, batch):
    logits = model.apply(params, batch["tokens"], batch["valid"])
    logz = jax.nn.logsumexp(logits, axis=-1)
    picked = jnp.take_along_axis(logits, batch["targets"][..., None], axis=-1)[..., 0]
    per_residue = logz - picked + 1e-3 * logz ** 2
    w = batch["masked"].astype(per_residue.dtype)
    return jnp.vdot(per_residue, w) / jnp.maximum(w.sum(), 1.0)


def step(params, opt_state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def make_batch(seed):
    k = jax.random.split(jax.random.PRNGKey(seed), 3)
    targets = jax.random.randint(k[0], (B, L), 1, RES)
    lengths = jax.random.randint(k[1], (B,), 5, L + 1)
    valid = jnp.arange(L)[None] < lengths[:, None]
    masked = (jax.random.uniform(k[2], (B, L)) < 0.3) & valid
    return {"tokens": jnp.where(masked, 0, targets), "targets": targets,
            "valid": valid, "masked": masked}


def main(out, steps=6):
    batch = make_batch(0)
    params = model.init(jax.random.PRNGKey(7), batch["tokens"], batch["valid"])
    opt_state = tx.init(params)
    lowered = jax.jit(step).lower(params, opt_state, batch)
    with open(out, "w") as f:
        f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    run = jax.jit(step)
    for i in range(steps):
        params, opt_state, loss = run(params, opt_state, make_batch(100 + i))
        print(i, "%.6f" % float(loss))
    print("checksum", float(sum(jnp.abs(p).sum() for p in jax.tree.leaves(params))))


if __name__ == "__main__":
    main(sys.argv[1])
