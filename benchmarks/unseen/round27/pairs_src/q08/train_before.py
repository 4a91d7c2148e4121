"""Data-parallel sequence tagger (flax + optax), ragged sentences padded to MAX_LEN."""
import os

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import train_state
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

VOCAB, TAGS, MAX_LEN, GLOBAL_BATCH = 50, 7, 10, 16
mesh = Mesh(np.array(jax.devices()[:4]), ("data",))


class Tagger(nn.Module):
    dim: int = 16

    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(VOCAB, self.dim)(tokens)
        for _ in range(2):
            y = nn.LayerNorm()(x)
            y = nn.Conv(self.dim, (3,), padding="SAME")(y)
            x = x + nn.gelu(y)
        return nn.Dense(TAGS)(nn.LayerNorm()(x))


def make_state(rng):
    model = Tagger()
    params = model.init(rng, jnp.zeros((1, MAX_LEN), jnp.int32))["params"]
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(3e-3, weight_decay=0.01))
    return train_state.TrainState.create(apply_fn=model.apply, params=params, tx=tx)


def token_loss(logits, tags, mask):
    ce = optax.softmax_cross_entropy_with_integer_labels(logits, tags)
    n_tokens = jax.lax.psum(mask.sum(), "data")
    return (ce * mask).sum() / n_tokens


def shard_step(state, batch):
    mask = (jnp.arange(MAX_LEN)[None, :] < batch["length"][:, None]).astype(jnp.float32)

    def loss_fn(params):
        logits = state.apply_fn({"params": params}, batch["tokens"])
        return token_loss(logits, batch["tags"], mask), logits

    (loss, logits), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    grads = jax.lax.psum(grads, "data")
    loss = jax.lax.psum(loss, "data")
    hits = jax.lax.psum(((logits.argmax(-1) == batch["tags"]) * mask).sum(), "data")
    total = jax.lax.psum(mask.sum(), "data")
    return state.apply_gradients(grads=grads), {"loss": loss, "acc": hits / total}


@jax.jit
def train_step(state, batch):
    f = jax.shard_map(shard_step, mesh=mesh, in_specs=(P(), P("data")), out_specs=(P(), P()),
                      check_vma=False)
    return f(state, batch)


def batches(n, seed=0):
    rs = np.random.RandomState(seed)
    sharding = NamedSharding(mesh, P("data"))
    for _ in range(n):
        tokens = rs.randint(1, VOCAB, (GLOBAL_BATCH, MAX_LEN))
        batch = {"tokens": tokens.astype(np.int32),
                 "tags": (tokens % TAGS).astype(np.int32),
                 "length": rs.randint(2, MAX_LEN + 1, GLOBAL_BATCH).astype(np.int32)}
        yield jax.device_put(batch, sharding)


if __name__ == "__main__":
    state = jax.device_put(make_state(jax.random.PRNGKey(0)), NamedSharding(mesh, P()))
    for i, batch in enumerate(batches(3)):
        state, m = train_step(state, batch)
        print(i, {k: round(float(v), 4) for k, v in m.items()})
