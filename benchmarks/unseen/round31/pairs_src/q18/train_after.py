"""Byte-level language model on ragged lines, data-parallel over four host devices with shard_map (linen + optax)."""
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import train_state
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

VOCAB, LENGTH, PAD = 40, 16, 0


class Block(nn.Module):
    dim: int
    heads: int

    @nn.compact
    def __call__(self, x, mask):
        h = nn.RMSNorm()(x)
        x = x + nn.SelfAttention(self.heads, use_bias=False)(h, mask=mask)
        h = nn.RMSNorm()(x)
        g, u = jnp.split(nn.Dense(4 * self.dim, use_bias=False)(h), 2, -1)
        return x + nn.Dense(self.dim, use_bias=False)(nn.silu(g) * u)


class LM(nn.Module):
    dim: int = 24
    heads: int = 2
    depth: int = 2

    @nn.compact
    def __call__(self, tokens):
        emb = nn.Embed(VOCAB, self.dim)
        pos = self.param("pos", nn.initializers.normal(0.02), (LENGTH, self.dim))
        x = emb(tokens) + pos[: tokens.shape[1]]
        mask = nn.combine_masks(nn.make_causal_mask(tokens), nn.make_attention_mask(tokens != PAD, tokens != PAD))
        for _ in range(self.depth):
            x = Block(self.dim, self.heads)(x, mask)
        return emb.attend(nn.RMSNorm()(x))


def token_nll(logits, targets):
    nll = optax.softmax_cross_entropy_with_integer_labels(logits, targets)
    z = jax.nn.logsumexp(logits, -1)
    return nll + 1e-4 * z**2


def masked_mean(x, mask):
    return (x * mask).sum() / mask.sum()


def create_state(rng, lr=3e-3, steps=100):
    model = LM()
    params = model.init(rng, jnp.zeros((1, LENGTH), jnp.int32))["params"]
    schedule = optax.warmup_cosine_decay_schedule(0.0, lr, 10, steps)
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, b2=0.98, weight_decay=0.1))
    return train_state.TrainState.create(apply_fn=model.apply, params=params, tx=tx)


def step_fn(state, batch):
    tokens, targets = batch
    mask = (targets != PAD).astype(jnp.float32)

    def loss_fn(params):
        logits = state.apply_fn({"params": params}, tokens)
        return masked_mean(token_nll(logits, targets), mask)

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    loss, grads = jax.lax.pmean((loss, grads), "data")
    return state.apply_gradients(grads=grads), {"loss": loss, "tokens": jax.lax.psum(mask.sum(), "data")}


def make_train_step(mesh):
    f = jax.shard_map(step_fn, mesh=mesh, in_specs=(P(), P("data")), out_specs=P(), check_vma=False)
    return jax.jit(f, donate_argnums=0)


def batches(n, size, seed=0):
    g = np.random.default_rng(seed)
    for _ in range(n):
        rows = np.zeros((size, LENGTH + 1), np.int32)
        for r in rows:
            k = g.integers(3, LENGTH + 2)
            r[:k] = (g.integers(1, VOCAB) + np.arange(k) * g.integers(1, 4)) % (VOCAB - 1) + 1
        rows = rows[np.argsort((rows > 0).sum(1))]
        yield rows[:, :-1], rows[:, 1:]


def main(steps=5, size=16):
    mesh = Mesh(np.array(jax.devices()), ("data",))
    state = jax.device_put(create_state(jax.random.key(0)), NamedSharding(mesh, P()))
    train_step = make_train_step(mesh)
    losses = []
    for batch in batches(steps, size):
        batch = jax.device_put(batch, NamedSharding(mesh, P("data")))
        if "DUMP" in os.environ and not losses:
            open(os.environ["DUMP"], "w").write(train_step.lower(state, batch).as_text(dialect="hlo"))
        state, metrics = train_step(state, batch)
        losses.append(float(metrics["loss"]))
    return losses


if __name__ == "__main__":
    print(main())
