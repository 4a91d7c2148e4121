"""Named-entity tagger, data parallel over the local devices with shard_map."""
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, PartitionSpec as P

IGNORE = -100
VOCAB, TAGS, WIDTH, LEN = 50, 7, 16, 12


class Tagger(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        pad = tokens > 0
        x = nn.Embed(VOCAB, WIDTH)(tokens)
        x = x + nn.gelu(nn.Conv(WIDTH, (3,))(x))
        h = nn.LayerNorm()(x)
        q, k, v = (nn.DenseGeneral((2, WIDTH // 2), name=n)(h) for n in "qkv")
        a = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(WIDTH // 2)
        a = jax.nn.softmax(jnp.where(pad[:, None, None, :], a, -1e9), axis=-1)
        x = x + nn.DenseGeneral(WIDTH, axis=(-2, -1), name="o")(jnp.einsum("bhqk,bkhd->bqhd", a, v))
        return nn.Dense(TAGS)(nn.LayerNorm()(x))


model = Tagger()
tx = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.2, momentum=0.9, nesterov=True))


def token_loss(params, tokens, tags):
    logits = model.apply({"params": params}, tokens)
    keep = tags != IGNORE
    nll = optax.softmax_cross_entropy_with_integer_labels(logits, jnp.where(keep, tags, 0))
    return jnp.where(keep, nll, 0.0).sum(), keep.sum()


def replica_step(params, opt_state, tokens, tags):
    (total, count), grads = jax.value_and_grad(token_loss, has_aux=True)(params, tokens, tags)
    count = jnp.maximum(jax.lax.psum(count, "data"), 1).astype(jnp.float32)
    grads = jax.tree.map(lambda g: jax.lax.psum(g, "data") / count, grads)
    loss = jax.lax.psum(total, "data") / count
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def build(mesh):
    return jax.jit(jax.shard_map(
        replica_step, mesh=mesh, in_specs=(P(), P(), P("data"), P("data")),
        out_specs=(P(), P(), P()), check_vma=False), donate_argnums=(0, 1))


def sentences(batch, seed=0):
    rng = np.random.default_rng(seed)
    while True:
        tok = rng.integers(1, VOCAB, (batch, LEN))
        length = np.sort(rng.integers(2, LEN + 1, batch))
        keep = np.arange(LEN) < length[:, None]
        yield (np.where(keep, tok, 0).astype(np.int32),
               np.where(keep, tok % TAGS, IGNORE).astype(np.int32))


def main(steps=6):
    mesh = Mesh(np.array(jax.devices()), ("data",))
    data = sentences(8)
    tok, tag = next(data)
    params = model.init(jax.random.PRNGKey(0), tok)["params"]
    opt_state = tx.init(params)
    step = build(mesh)
    if path := os.environ.get("DUMP_HLO"):
        with open(path, "w") as f:
            f.write(step.lower(params, opt_state, tok, tag).as_text(dialect="hlo"))
    for i in range(steps):
        params, opt_state, loss = step(params, opt_state, tok, tag)
        print(i, f"{float(loss):.5f}")
        tok, tag = next(data)


if __name__ == "__main__":
    main()
