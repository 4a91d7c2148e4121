"""Flax image classifier with periodic checkpoints; resumes in-process after a simulated preemption."""
import functools
import io
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct


class ConvNet(nn.Module):
    features: tuple = (8, 16)
    classes: int = 5

    @nn.compact
    def __call__(self, x):
        for i, f in enumerate(self.features):
            h = nn.Conv(f, (3, 3), strides=2, use_bias=False, name=f"conv{i}")(x)
            h = nn.GroupNorm(num_groups=4, name=f"gn{i}")(h)
            x = nn.silu(h)
        x = x.mean((1, 2))
        x = nn.Dense(24, name="fc")(x)
        return nn.Dense(self.classes, name="head")(nn.relu(x))


class TrainState(struct.PyTreeNode):
    step: jax.Array
    params: Any
    opt_state: Any


MODEL = ConvNet()
SCHEDULE = optax.warmup_cosine_decay_schedule(0.0, 3e-3, 3, 40)
TX = optax.adamw(SCHEDULE, b2=0.98, weight_decay=1e-2, mu_dtype=jnp.bfloat16)


def create_state(seed):
    params = MODEL.init(jax.random.PRNGKey(seed), jnp.zeros((1, 8, 8, 1)))["params"]
    return TrainState(step=jnp.zeros((), jnp.int32), params=params, opt_state=TX.init(params))


@functools.partial(jax.jit, donate_argnums=0)
def train_step(state, images, labels):

    def loss_fn(params):
        logits = MODEL.apply({"params": params}, images)
        targets = optax.smooth_labels(jax.nn.one_hot(labels, MODEL.classes), 0.1)
        loss = optax.softmax_cross_entropy(logits, targets).mean()
        return loss, (logits.argmax(-1) == labels).mean()

    (loss, acc), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    updates, opt_state = TX.update(grads, state.opt_state, state.params)
    state = state.replace(
        step=state.step + 1, params=optax.apply_updates(state.params, updates), opt_state=opt_state)
    return state, {"loss": loss, "acc": acc, "gnorm": optax.global_norm(grads)}


class Checkpointer:

    def __init__(self):
        self.blob = None

    def save(self, state):
        buf = io.BytesIO()
        arrays = {}
        for i, leaf in enumerate(jax.tree_util.tree_leaves(state)):
            a = np.asarray(leaf)
            # np.savez cannot describe ml_dtypes
            arrays[f"leaf_{i}"] = a if a.dtype.kind == "i" else a.astype(np.float32)
        np.savez(buf, **arrays)
        self.blob = buf.getvalue()

    def restore(self, like):
        data = np.load(io.BytesIO(self.blob))
        treedef = jax.tree_util.tree_structure(like)
        leaves = [jnp.asarray(data[f"leaf_{i}"]) for i in range(treedef.num_leaves)]
        return jax.tree_util.tree_unflatten(treedef, leaves)


def stripes(seed, bs=8):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 5, bs).astype(np.int32)
    yy, xx = np.meshgrid(np.arange(8), np.arange(8), indexing="ij")
    ang = (y * np.pi / 5)[:, None, None]
    img = np.sin(1.3 * (np.cos(ang) * xx + np.sin(ang) * yy)) + 0.3 * rng.standard_normal((bs, 8, 8))
    return img[..., None].astype(np.float32), y


def main(total=8, save_every=3, preempt_at=5):
    ckpt = Checkpointer()
    state = create_state(0)
    i, preempted = 0, False
    while i < total:
        state, m = train_step(state, *stripes(i))
        i += 1
        print(i, {k: round(float(v), 4) for k, v in m.items()})
        if i % save_every == 0:
            ckpt.save(state)
        if i == preempt_at and not preempted:
            preempted = True
            state = ckpt.restore(create_state(0))
            i = int(state.step)
            print("resumed from", i)


if __name__ == "__main__":
    main()
