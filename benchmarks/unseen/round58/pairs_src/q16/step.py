import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import train_state

NUM_POINTS = 32
BATCH = 8


class PointEncoder(nn.Module):
    widths: tuple = (16, 24)

    @nn.compact
    def __call__(self, xyz, valid=None):
        h = xyz
        for w in self.widths:
            h = nn.relu(nn.LayerNorm()(nn.Dense(w)(h)))
        if valid is not None:
            h = jnp.where(valid[..., None], h, -jnp.inf)
        return h.max(axis=1)


class Classifier(nn.Module):
    classes: int = 5

    @nn.compact
    def __call__(self, xyz, valid=None):
        if valid is None:
            centre = xyz.mean(axis=1, keepdims=True)
        else:
            v = valid[..., None].astype(xyz.dtype)
            centre = (xyz * v).sum(1, keepdims=True) / jnp.maximum(v.sum(1, keepdims=True), 1)
        xyz = xyz - centre
        g = PointEncoder()(xyz, valid)
        g = nn.relu(nn.Dense(24)(g))
        return nn.Dense(self.classes)(g)


def compute_loss(logits, batch):
    ce = optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"])
    acc = (logits.argmax(-1) == batch["label"]).astype(jnp.float32)
    return ce.mean(), acc.mean()


@jax.jit
def train_step(state, batch, rng):
    angle = jax.random.uniform(rng, (batch["points"].shape[0],), maxval=2 * jnp.pi)
    c, s, z, o = jnp.cos(angle), jnp.sin(angle), jnp.zeros_like(angle), jnp.ones_like(angle)
    rot = jnp.stack([c, -s, z, s, c, z, z, z, o], -1).reshape(-1, 3, 3)
    points = jnp.einsum("bnc,bdc->bnd", batch["points"], rot)

    def loss_fn(params):
        logits = state.apply_fn({"params": params}, points, batch.get("valid"))
        return compute_loss(logits, batch)

    (loss, acc), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    return state.apply_gradients(grads=grads), {"loss": loss, "acc": acc}


class Scans:
    def __init__(self, n, seed=0):
        rng = np.random.default_rng(seed)
        size = rng.lognormal(4.3, 0.4, n).astype(int)
        self.scans = [rng.normal(size=(k, 3)).astype(np.float32) for k in size]
        self.labels = rng.integers(0, 5, n).astype(np.int32)
        self.rng = rng

    def sample(self, i):
        pts = self.scans[i]
        if len(pts) >= NUM_POINTS:
            pick = self.rng.choice(len(pts), NUM_POINTS, replace=False)
            return pts[pick], None
        out = np.zeros((NUM_POINTS, 3), np.float32)
        out[: len(pts)] = pts
        return out, np.arange(NUM_POINTS) < len(pts)

    def __iter__(self):
        for i in range(0, len(self.labels) - BATCH + 1, BATCH):
            pts, masks = zip(*(self.sample(j) for j in range(i, i + BATCH)))
            batch = {"points": np.stack(pts), "label": self.labels[i:i + BATCH]}
            if any(m is not None for m in masks):
                full = np.ones(NUM_POINTS, bool)
                batch["valid"] = np.stack([full if m is None else m for m in masks])
            yield batch


def main():
    model = Classifier()
    rng = jax.random.PRNGKey(0)
    params = model.init(rng, jnp.zeros((1, NUM_POINTS, 3)))["params"]
    tx = optax.sgd(optax.cosine_decay_schedule(0.05, 100), momentum=0.9)
    state = train_state.TrainState.create(apply_fn=model.apply, params=params, tx=tx)
    for step, batch in enumerate(Scans(48)):
        rng, sub = jax.random.split(rng)
        state, m = train_step(state, batch, sub)
        print(step, float(m["loss"]), float(m["acc"]))


if __name__ == "__main__":
    main()
