"""Jet tagging at a collider: a set transformer over the constituents of a jet (flax), trained
with a class-balanced cross entropy and a decorrelation term against the jet mass."""
import os

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

HERE = os.path.dirname(os.path.abspath(__file__))
PARTS, FEATS, DIM, HEADS, BATCH = 9, 4, 12, 3, 6


class SetBlock(nn.Module):
    dim: int
    heads: int

    @nn.compact
    def __call__(self, x, mask):
        n = x.shape[0]
        y = nn.LayerNorm(name="ln1")(x)
        q, k, v = (nn.Dense(self.dim, use_bias=False, name=m)(y)
                   .reshape(n, self.heads, -1).swapaxes(0, 1) for m in "qkv")
        s = (q * q.shape[-1] ** -0.5) @ k.mT
        p = jax.nn.softmax(s, axis=-1, where=mask)
        o = (p @ v).swapaxes(0, 1).reshape(n, self.dim)
        x = x + nn.Dense(self.dim, name="o")(o)
        y = nn.LayerNorm(name="ln2")(x)
        return x + nn.Dense(self.dim, name="f2")(nn.gelu(nn.Dense(2 * self.dim, name="f1")(y)))


class JetTagger(nn.Module):
    """One jet: parts [n, features], mask [n]; vmap for a batch."""

    @nn.compact
    def __call__(self, parts, mask):
        x = nn.Dense(DIM, name="embed")(parts)
        x = SetBlock(DIM, HEADS, name="block")(x, mask)
        pooled = jnp.mean(x, axis=0, where=mask[:, None])
        return nn.Dense(1, name="head")(nn.silu(nn.Dense(DIM, name="mix")(pooled)))[0]


model = JetTagger()
tx = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.scale_by_adam(b1=0.9, b2=0.99),
    optax.add_decayed_weights(1e-2),
    optax.scale(-2e-3),
)


def correlation(a, b):
    a = a - jnp.mean(a)
    b = b - jnp.mean(b)
    return jnp.sum(a * b) / jnp.sqrt(jnp.sum(a * a) * jnp.sum(b * b) + 1e-6)


def loss_fn(params, batch):
    logit = jax.vmap(model.apply, (None, 0, 0))({"params": params}, batch["parts"], batch["mask"])
    label = batch["label"]
    ce = optax.sigmoid_binary_cross_entropy(logit, label)
    weight = label / jnp.sum(label) + (1.0 - label) / jnp.sum(1.0 - label)
    balanced = 0.5 * jnp.vdot(ce, weight)
    decor = jnp.square(correlation(jax.nn.sigmoid(logit), batch["mass"]))
    return balanced + 0.5 * decor, (balanced, decor)


def step(params, opt_state, batch):
    (loss, parts), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss, "ce": parts[0], "decor": parts[1]}


def make_batch(rng):
    n = rng.integers(3, PARTS + 1, size=BATCH)
    return {
        "parts": jnp.asarray(rng.normal(size=(BATCH, PARTS, FEATS)), jnp.float32),
        "mask": jnp.asarray(np.arange(PARTS)[None] < n[:, None]),
        "label": jnp.asarray([1, 0, 0, 1, 0, 0], jnp.float32),
        "mass": jnp.asarray(rng.normal(size=BATCH), jnp.float32),
    }


def main(target):
    rng = np.random.default_rng(7)
    batch = make_batch(rng)
    params = model.init(jax.random.PRNGKey(1), batch["parts"][0], batch["mask"][0])["params"]
    opt_state = tx.init(params)
    jitted = jax.jit(step)
    with open(os.path.join(HERE, target), "w") as f:
        f.write(jitted.lower(params, opt_state, batch).compiler_ir("hlo").as_hlo_module().to_string())
    for _ in range(8):
        params, opt_state, out = jitted(params, opt_state, batch)
        norm = sum(float(jnp.abs(p).sum()) for p in jax.tree_util.tree_leaves(params))
        print({k: round(float(v), 5) for k, v in out.items()}, round(norm, 3))
        batch = make_batch(rng)


if __name__ == "__main__":
    main("b.hlo")
