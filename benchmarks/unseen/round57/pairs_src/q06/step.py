"""Trains a DLRM-style click model on impression logs, read from CSV in chunks."""
import io

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
from flax.training.train_state import TrainState

SPARSE = {"site_id": 50, "ad_id": 80, "device_type": 6, "age_bucket": 9}
DENSE = ["n_clicks_7d", "n_views_7d", "hour_sin", "hour_cos"]
SEED = 17


def fake_log(n=160, seed=0):
    """One day of impressions, as the exporter writes them."""
    rng = np.random.default_rng(seed)
    cols = {name: rng.integers(1, size, n) for name, size in SPARSE.items()}
    frame = pd.DataFrame(cols)
    for name in DENSE:
        frame[name] = rng.gamma(1.0, 2.0, n).round(3)
    frame["age_bucket"] = frame["age_bucket"].astype("Int64")
    frame.loc[rng.choice(np.arange(70, 125), 5, replace=False), "age_bucket"] = pd.NA
    frame["click"] = (rng.random(n) < 0.2).astype(int)
    return frame.to_csv(index=False)


def read_batches(text, batch_size):
    for chunk in pd.read_csv(io.StringIO(text), chunksize=batch_size):
        chunk = chunk.fillna(0)
        sparse = {name: chunk[name].to_numpy() for name in SPARSE}
        dense = chunk[DENSE].to_numpy(np.float32)
        yield {"sparse": sparse, "dense": dense, "label": chunk["click"].to_numpy(np.float32)}


class MLP(nn.Module):
    features: tuple

    @nn.compact
    def __call__(self, x):
        for f in self.features[:-1]:
            x = nn.relu(nn.Dense(f)(x))
        return nn.Dense(self.features[-1])(x)


class CrossLayer(nn.Module):
    rank: int = 8

    @nn.compact
    def __call__(self, x0, x):
        y = nn.Dense(x.shape[-1])(nn.Dense(self.rank, use_bias=False)(x))
        return x0 * y + x


class ClickModel(nn.Module):
    dim: int = 16
    n_cross: int = 2

    @nn.compact
    def __call__(self, sparse, dense):
        parts = [MLP((32, self.dim), name="bottom")(jnp.log1p(dense))]
        for name, size in SPARSE.items():
            ids = jnp.clip(sparse[name], 0, size - 1).astype(jnp.int32)
            parts.append(nn.Embed(size, self.dim, name=name)(ids))
        x0 = x = jnp.concatenate(parts, axis=-1)
        for i in range(self.n_cross):
            x = CrossLayer(name=f"cross_{i}")(x0, x)
        x = nn.LayerNorm()(x)
        return MLP((32, 16, 1), name="top")(x)[:, 0]


@jax.jit
def train_step(state, batch):
    def loss_fn(params):
        logits = state.apply_fn({"params": params}, batch["sparse"], batch["dense"])
        return optax.sigmoid_binary_cross_entropy(logits, batch["label"]).mean(), logits

    (loss, logits), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    state = state.apply_gradients(grads=grads)
    metrics = {
        "loss": loss,
        "calibration": jax.nn.sigmoid(logits).sum() / jnp.maximum(batch["label"].sum(), 1.0),
        "grad_norm": optax.global_norm(grads),
    }
    return state, metrics


def main():
    model = ClickModel()
    text = fake_log()
    first = next(read_batches(text, 32))
    params = model.init(jax.random.key(SEED), first["sparse"], first["dense"])["params"]
    tx = optax.chain(optax.clip_by_global_norm(5.0), optax.adagrad(0.05))
    state = TrainState.create(apply_fn=model.apply, params=params, tx=tx)
    state = state.replace(step=jnp.zeros((), jnp.int32))
    for i, batch in enumerate(read_batches(text, 32)):
        state, metrics = train_step(state, batch)
        print(i, {k: round(float(v), 4) for k, v in metrics.items()})


if __name__ == "__main__":
    main()
