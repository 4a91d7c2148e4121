"""Half-precision lane segmentation with dynamic loss scaling (Flax)."""
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

HEIGHT, WIDTH, CLASSES = 16, 24, 4
MIN_SCALE, MAX_SCALE = np.float32(1.0), np.float32(2.0 ** 15)
GROWTH_INTERVAL = 200


class MixBlock(nn.Module):
    features: int
    dtype: jnp.dtype = jnp.float16

    @nn.compact
    def __call__(self, x):
        y = nn.Conv(x.shape[-1], (3, 3), feature_group_count=x.shape[-1], dtype=self.dtype)(x)
        y = nn.LayerNorm(dtype=self.dtype)(y)
        y = nn.Dense(2 * self.features, dtype=self.dtype)(y)
        y = nn.gelu(y)
        return x + nn.Dense(x.shape[-1], dtype=self.dtype)(y)


class LaneNet(nn.Module):
    width: int = 8
    dtype: jnp.dtype = jnp.float16

    @nn.compact
    def __call__(self, image):
        x = image.astype(self.dtype)
        fine = nn.Conv(self.width, (3, 3), strides=2, dtype=self.dtype)(x)
        fine = MixBlock(self.width, self.dtype)(fine)
        coarse = nn.Conv(2 * self.width, (3, 3), strides=2, dtype=self.dtype)(fine)
        coarse = MixBlock(2 * self.width, self.dtype)(coarse)
        up = jnp.repeat(jnp.repeat(coarse, 2, axis=1), 2, axis=2)
        x = jnp.concatenate([fine, nn.Dense(self.width, dtype=self.dtype)(up)], axis=-1)
        logits = nn.Dense(CLASSES, dtype=self.dtype)(nn.relu(x))
        return jnp.repeat(jnp.repeat(logits, 2, axis=1), 2, axis=2)


model = LaneNet()
tx = optax.sgd(0.05, momentum=0.9, nesterov=True)


def segmentation_loss(logits, label):
    onehot = jax.nn.one_hot(label, CLASSES, dtype=logits.dtype)
    ce = -(onehot * nn.log_softmax(logits)).sum(-1)
    prob = nn.softmax(logits)
    inter = (prob * onehot).mean((0, 1, 2))
    dice = 2 * inter / ((prob + onehot).mean((0, 1, 2)) + 1e-3)
    return ce.mean() + 1 - dice.mean()


@jax.jit
def train_step(params, opt_state, scaler, batch):
    scale, good_steps = scaler

    def scaled_loss(p):
        logits = model.apply({"params": p}, batch["image"])
        loss = segmentation_loss(logits, batch["label"])
        return loss * scale, logits

    (loss, logits), grads = jax.value_and_grad(scaled_loss, has_aux=True)(params)
    loss = loss / scale
    grads = jax.tree.map(lambda g: g.astype(jnp.float32) / scale, grads)
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(g)) for g in jax.tree.leaves(grads)]))

    updates, new_opt_state = tx.update(grads, opt_state, params)
    new_params = optax.apply_updates(params, updates)
    keep = lambda new, old: jnp.where(finite, new, old)
    params = jax.tree.map(keep, new_params, params)
    opt_state = jax.tree.map(keep, new_opt_state, opt_state)

    grow = finite & (good_steps + 1 >= GROWTH_INTERVAL)
    scale = jnp.where(finite, jnp.where(grow, scale * 2, scale), scale / 2)
    scaler = (jnp.clip(scale, MIN_SCALE, MAX_SCALE),
              jnp.where(grow | ~finite, 0, good_steps + 1))

    pred = logits.argmax(-1)
    inter = jnp.stack([((pred == c) & (batch["label"] == c)).sum() for c in range(CLASSES)])
    union = jnp.stack([((pred == c) | (batch["label"] == c)).sum() for c in range(CLASSES)])
    metrics = {"loss": loss, "miou": (inter / jnp.maximum(union, 1)).mean(), "scale": scaler[0]}
    return params, opt_state, scaler, metrics


def road_scenes(seed, steps, batch=2):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:HEIGHT, :WIDTH]
    for _ in range(steps):
        shift = rng.uniform(-4, 4, (batch, 1, 1))
        lane = (np.abs(xx - WIDTH / 2 - shift) * HEIGHT / (yy + 1) / 8).astype(np.int32)
        label = np.clip(lane, 0, CLASSES - 1).astype(np.int32)
        image = label[..., None] / CLASSES + 0.1 * rng.normal(size=(batch, HEIGHT, WIDTH, 3))
        yield {"image": image.astype(np.float32), "label": label}


def main():
    params = model.init(jax.random.key(0), jnp.zeros((1, HEIGHT, WIDTH, 3)))["params"]
    opt_state = tx.init(params)
    scaler = (2.0 ** 10, jnp.zeros((), jnp.int32))
    for step, batch in enumerate(road_scenes(3, 5)):
        params, opt_state, scaler, metrics = train_step(params, opt_state, scaler, batch)
        print(step, {k: round(float(v), 4) for k, v in metrics.items()}, flush=True)


if __name__ == "__main__":
    main()
