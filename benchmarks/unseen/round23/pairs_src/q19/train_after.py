"""Data-parallel training of a small sequence tagger with flax and shard_map."""
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, PartitionSpec as P

CONFIG = {
    "vocab": 30,
    "tags": 5,
    "seq_len": 9,
    "features": 16,
    "kernel": 3,
    "global_batch": 8,
    "lr": 2e-3,
    "clip": 0.5,
    "steps": 4,
}


class GatedConv(nn.Module):
    features: int
    kernel: int

    @nn.compact
    def __call__(self, x):
        h = nn.LayerNorm(epsilon=1e-6)(x)
        h = nn.Conv(2 * self.features, (self.kernel,), padding="SAME")(h)
        a, g = jnp.split(h, 2, axis=-1)
        return x + a * nn.sigmoid(g)


class Tagger(nn.Module):
    cfg: Any

    @nn.compact
    def __call__(self, tokens):
        c = self.cfg
        x = nn.Embed(c["vocab"], c["features"])(tokens)
        for _ in range(2):
            x = GatedConv(c["features"], c["kernel"])(x)
        x = nn.LayerNorm()(x)
        return nn.Dense(c["tags"])(x)


def make_optimizer(cfg):
    return optax.chain(
        optax.clip_by_global_norm(cfg["clip"]),
        optax.scale_by_adam(b1=0.9, b2=0.99),
        optax.scale(-cfg["lr"]),
    )


def tag_loss(logits, tags, lengths):
    positions = jnp.arange(tags.shape[1])
    valid = positions[None, :] < lengths[:, None]
    ce = optax.softmax_cross_entropy_with_integer_labels(logits, tags)
    return jnp.where(valid, ce, 0.0).mean()


def make_train_step(model, tx, mesh):
    def step(params, opt_state, tokens, tags, lengths):
        def local_loss(p):
            return tag_loss(model.apply({"params": p}, tokens), tags, lengths)

        loss, grads = jax.value_and_grad(local_loss)(params)
        grads = jax.lax.psum(grads, "data")
        loss = jax.lax.pmean(loss, "data")
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    sharded = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(P(), P(), P("data"), P("data"), P("data")),
        out_specs=(P(), P(), P()),
        check_vma=False,
    )
    return jax.jit(sharded, donate_argnums=(0, 1))


def sample(rng, cfg):
    n, t = cfg["global_batch"], cfg["seq_len"]
    tokens = rng.integers(1, cfg["vocab"], size=(n, t)).astype(np.int32)
    lengths = rng.integers(3, t + 1, size=(n,)).astype(np.int32)
    prev = np.concatenate([np.zeros((n, 1), np.int32), tokens[:, :-1]], axis=1)
    tags = ((tokens + prev) % cfg["tags"]).astype(np.int32)
    tokens[np.arange(t)[None, :] >= lengths[:, None]] = 0
    return tokens, tags, lengths


def main(cfg=CONFIG):
    mesh = Mesh(np.array(jax.devices()), ("data",))
    model = Tagger(cfg)
    rng = np.random.default_rng(2)
    params = model.init(jax.random.PRNGKey(1), sample(rng, cfg)[0])["params"]
    tx = make_optimizer(cfg)
    opt_state = tx.init(params)
    train_step = make_train_step(model, tx, mesh)
    for i in range(cfg["steps"]):
        params, opt_state, loss = train_step(params, opt_state, *sample(rng, cfg))
        print(f"{i}: {float(loss):.4f}")


if __name__ == "__main__":
    main()
