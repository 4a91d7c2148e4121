"""Deep-sets jet tagger: per-constituent network, masked pooling, class + mass heads."""
import os
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

JETS, CONST, FEAT, CLASSES = 8, 6, 5, 4


class JetTagger(nn.Module):
    width: int = 12

    @nn.compact
    def __call__(self, x, mask):
        h = nn.gelu(nn.Dense(self.width)(x))
        h = nn.LayerNorm()(h)
        h = nn.gelu(nn.Dense(self.width)(h))
        m = mask[..., None]
        mean = (h * m).sum(1) / jnp.maximum(m.sum(1), 1.0)
        peak = jnp.where(m > 0, h, -1e9).max(1)
        g = jnp.concatenate([mean, peak], axis=-1)
        g = nn.gelu(nn.Dense(self.width)(g))
        return nn.Dense(CLASSES)(g), nn.Dense(1)(g)[:, 0]


model = JetTagger()

tx = optax.chain(
    optax.scale_by_adam(b1=0.9, b2=0.99),
    optax.clip_by_global_norm(1.0),
    optax.add_decayed_weights(1e-4, mask=lambda p: jax.tree.map(lambda a: a.ndim > 1, p)),
    optax.scale_by_learning_rate(optax.warmup_cosine_decay_schedule(0.0, 2e-3, 10, 200)),
)


def loss_fn(params, batch):
    logits, log_mass = model.apply({"params": params}, batch["x"], batch["mask"])
    ce = optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"])
    reg = optax.huber_loss(log_mass, batch["log_mass"], delta=0.5)
    acc = (logits.argmax(-1) == batch["label"]).mean()
    return (batch["weight"] * (ce + 0.2 * reg)).sum() / batch["weight"].sum(), acc


def train_step(params, opt_state, batch):
    (loss, acc), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, {"loss": loss, "acc": acc}


def make_batch(key):
    ks = jax.random.split(key, 5)
    n = jax.random.randint(ks[0], (JETS, 1), 1, CONST + 1)
    return {
        "x": jax.random.normal(ks[1], (JETS, CONST, FEAT)),
        "mask": (jnp.arange(CONST)[None] < n).astype(jnp.float32),
        "label": jax.random.randint(ks[2], (JETS,), 0, CLASSES),
        "log_mass": jax.random.normal(ks[3], (JETS,)),
        "weight": jax.random.uniform(ks[4], (JETS,), minval=0.5, maxval=2.0),
    }


def main():
    batch = make_batch(jax.random.key(1))
    params = model.init(jax.random.key(0), batch["x"], batch["mask"])["params"]
    opt_state = tx.init(params)
    step = jax.jit(train_step)
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w") as f:
            f.write(step.lower(params, opt_state, batch).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(int(os.environ.get("STEPS", 3))):
        params, opt_state, metrics = step(params, opt_state, make_batch(jax.random.key(10 + i)))
        print(i, float(metrics["loss"]))


if __name__ == "__main__":
    main()
