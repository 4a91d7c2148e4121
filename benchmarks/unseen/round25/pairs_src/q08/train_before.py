"""Data-parallel text classifier: flax + optax under shard_map."""

import jax
jax.config.update("jax_num_cpu_devices", 4)
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from jax.sharding import Mesh, PartitionSpec as P

VOCAB, SEQ, DIM, CLASSES = 50, 12, 24, 3
GLOBAL_BATCH = 16


class Pooler(nn.Module):
    @nn.compact
    def __call__(self, h, mask):
        score = nn.Dense(1)(nn.tanh(nn.Dense(h.shape[-1])(h)))[..., 0]
        score = jnp.where(mask, score, -1e9)
        w = jax.nn.softmax(score, axis=-1)
        return jnp.einsum("bt,btd->bd", w, h)


class Classifier(nn.Module):
    drop: float = 0.2

    @nn.compact
    def __call__(self, ids, train):
        mask = ids > 0
        h = nn.Embed(VOCAB, DIM)(ids)
        h = nn.Dropout(self.drop, deterministic=not train)(h)
        r = nn.Conv(DIM, (3,))(h)
        h = nn.LayerNorm()(h + nn.gelu(r))
        z = Pooler()(h, mask)
        return nn.Dense(CLASSES)(z)


model = Classifier()
tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(2e-3, b2=0.98, weight_decay=1e-2))


def loss_fn(params, batch, rng):
    logits = model.apply(params, batch["ids"], train=True, rngs={"dropout": rng})
    ce = optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"])
    acc = (logits.argmax(-1) == batch["label"]).mean()
    return ce.mean(), acc


def train_step(params, opt_state, batch, rng, step):
    rng = jax.random.fold_in(rng, step)
    rng = jax.random.fold_in(rng, jax.lax.axis_index("dp"))
    (loss, acc), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch, rng)
    grads = jax.lax.pmean(grads, "dp")
    metrics = jax.lax.pmean({"loss": loss, "acc": acc}, "dp")
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, metrics


def build(mesh):
    smapped = jax.shard_map(
        train_step, mesh=mesh,
        in_specs=(P(), P(), P("dp"), P(), P()),
        out_specs=(P(), P(), P()),
        check_vma=False,
    )
    return jax.jit(smapped)


def batches(seed):
    r = np.random.default_rng(seed)
    while True:
        y = r.integers(0, CLASSES, GLOBAL_BATCH)
        ids = r.integers(1, VOCAB, (GLOBAL_BATCH, SEQ))
        ids[:, 0] = y + 1
        ids[np.arange(SEQ)[None] >= r.integers(4, SEQ + 1, (GLOBAL_BATCH, 1))] = 0
        yield {"ids": ids.astype(np.int32), "label": y.astype(np.int32)}


def main():
    mesh = Mesh(np.array(jax.devices()), ("dp",))
    rng = jax.random.PRNGKey(0)
    params = model.init(rng, jnp.zeros((1, SEQ), jnp.int32), train=False)
    opt_state = tx.init(params)
    step_fn = build(mesh)
    for step, batch in zip(range(4), batches(1)):
        params, opt_state, m = step_fn(params, opt_state, batch, rng, jnp.int32(step))
        print(step, {k: round(float(v), 4) for k, v in m.items()})


if __name__ == "__main__":
    main()
