"""Seismic phase picker with diagonal linear recurrences (JAX, flax, lion)."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

TRACES, FRAMES, CHAN, DIM, PHASES = 4, 12, 3, 10, 3


class DiagRecurrence(nn.Module):
    dim: int

    @nn.compact
    def __call__(self, x, keep):
        nu = self.param("nu", nn.initializers.uniform(2.0), (self.dim,))
        a = jnp.exp(-jnp.exp(-nu))
        gamma = jnp.sqrt(1.0 - a ** 2)
        u = gamma * nn.Dense(self.dim, use_bias=False, name="inp")(x)
        decay = jnp.where(keep[..., None], a, 1.0)
        u = jnp.where(keep[..., None], u, 0.0)

        def combine(left, right):
            al, bl = left
            ar, br = right
            return al * ar, ar * bl + br

        _, h = jax.lax.associative_scan(combine, (decay, u), axis=1)
        return h


class PickerBlock(nn.Module):
    dim: int

    @nn.compact
    def __call__(self, x, keep):
        y = nn.LayerNorm()(x)
        fwd = DiagRecurrence(self.dim, name="rec")(y, keep)
        gate = nn.sigmoid(nn.Dense(self.dim, name="gate")(y))
        return x + gate * fwd


class PhasePicker(nn.Module):
    @nn.compact
    def __call__(self, wave, keep):
        x = nn.Conv(DIM, (3,), name="stem")(wave)
        for i in range(2):
            x = PickerBlock(DIM, name=f"block{i}")(x, keep)
        return nn.Dense(PHASES, name="head")(nn.gelu(x))


def pick_loss(logits, prob, keep):
    m = keep.astype(logits.dtype)
    ce = -jnp.sum(prob * jax.nn.log_softmax(logits), axis=-1)
    return jnp.sum(ce * m) / jnp.maximum(jnp.sum(m), 1.0)


model = PhasePicker()
tx = optax.lion(3e-4, weight_decay=1e-2)


def train_step(params, opt_state, wave, prob, lengths):
    keep = jnp.arange(FRAMES)[None, :] < lengths[:, None]

    def loss_fn(p):
        logits = model.apply({"params": p}, wave, keep)
        return pick_loss(logits, prob, keep), logits

    (loss, logits), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    hit = (jnp.argmax(logits, -1) == jnp.argmax(prob, -1)) & keep
    return params, opt_state, loss, jnp.sum(hit) / jnp.sum(keep)


def make_batch(key):
    k1, k2, k3 = jax.random.split(key, 3)
    wave = jax.random.normal(k1, (TRACES, FRAMES, CHAN))
    prob = jax.nn.softmax(3.0 * jax.random.normal(k2, (TRACES, FRAMES, PHASES)))
    return wave, prob, jax.random.randint(k3, (TRACES,), 4, FRAMES + 1)


def main(path):
    root = jax.random.PRNGKey(20)
    batch = make_batch(root)
    params = model.init(root, batch[0], jnp.ones((TRACES, FRAMES), bool))["params"]
    state = tx.init(params)
    step = jax.jit(train_step)
    with open(path, "w") as f:
        f.write(step.lower(params, state, *batch).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(3):
        params, state, loss, acc = step(params, state, *make_batch(jax.random.fold_in(root, i)))
        print(i, float(loss), float(acc))


if __name__ == "__main__":
    main(sys.argv[1])
