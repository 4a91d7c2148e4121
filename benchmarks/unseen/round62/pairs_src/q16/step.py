"""Choose a small gene panel with a concrete selector and reconstruct the full profile."""
import dataclasses
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import train_state


@dataclasses.dataclass(frozen=True)
class Settings:
    n_genes: int = 96
    n_select: int = 12
    hidden: tuple = (48, 32)
    n_types: int = 6
    tau: float = 5.0
    tau_min: float = 0.1
    tau_decay: float = 0.8
    type_weight: float = 0.3
    overlap_weight: float = 0.05
    lr: float = 2e-3


class Selector(nn.Module):
    cfg: Settings

    @nn.compact
    def __call__(self, x, train):
        c = self.cfg
        logits = self.param("logits", nn.initializers.normal(0.01), (c.n_select, c.n_genes))
        if train:
            g = jax.random.gumbel(self.make_rng("gumbel"), logits.shape)
            w = jax.nn.softmax((logits + g) / c.tau, axis=-1)
        else:
            w = jax.nn.one_hot(logits.argmax(-1), c.n_genes)
        return x @ w.T, jax.nn.softmax(logits, -1)


class PanelNet(nn.Module):
    cfg: Settings

    @nn.compact
    def __call__(self, x, train=True):
        c = self.cfg
        h, probs = Selector(c)(x, train)
        for width in c.hidden:
            h = nn.Dense(width)(h)
            h = nn.tanh(h)
        rate = jnp.exp(nn.Dense(c.n_genes)(h))
        return rate, nn.Dense(c.n_types)(h), probs


def poisson_nll(x, mu):
    return mu - x * jnp.log(mu + 1e-6)


class State(train_state.TrainState):
    key: jax.Array


@functools.partial(jax.jit, static_argnames="cfg")
def train_step(state, batch, cfg):
    key, k_gumbel = jax.random.split(state.key)
    size = batch["counts"].sum(1, keepdims=True)
    x = jnp.log1p(batch["counts"] / size * 1e3)

    def loss_fn(params):
        rate, logits, probs = PanelNet(cfg).apply(
            {"params": params}, x, rngs={"gumbel": k_gumbel})
        mu = rate / (rate.sum(1, keepdims=True) + 1e-6) * size
        recon = poisson_nll(batch["counts"], mu).mean()
        kind = optax.softmax_cross_entropy_with_integer_labels(logits, batch["type"]).mean()
        overlap = jax.nn.relu(probs.sum(0) - 1.0).sum()
        loss = recon + cfg.type_weight * kind + cfg.overlap_weight * overlap
        return loss, {"recon": recon, "kind": kind, "top": probs.max(-1).mean()}

    (loss, aux), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    state = state.apply_gradients(grads=grads).replace(key=key)
    return state, {"loss": loss, **aux}


def cells(cfg, rng, n, batch):
    profile = rng.gamma(1.0, 2.0, (cfg.n_types, cfg.n_genes))
    kind = rng.integers(0, cfg.n_types, n)
    counts = rng.poisson(profile[kind]).astype(np.float32) + 0.0
    for i in range(0, n - batch + 1, batch):
        yield {"counts": counts[i:i + batch], "type": kind[i:i + batch].astype(np.int32)}


def main(epochs=4):
    cfg = Settings()
    rng = np.random.default_rng(1)
    key = jax.random.PRNGKey(2)
    params = PanelNet(cfg).init(
        {"params": key, "gumbel": key}, jnp.zeros((1, cfg.n_genes)))["params"]
    tx = optax.chain(optax.clip_by_global_norm(5.0), optax.adam(cfg.lr))
    state = State.create(apply_fn=None, params=params, tx=tx, key=key)
    for epoch in range(epochs):
        for batch in cells(cfg, rng, 64, 16):
            state, logs = train_step(state, batch, cfg)
        print(epoch, {k: round(float(v), 4) for k, v in logs.items()})
        cfg = dataclasses.replace(cfg, tau=max(cfg.tau_min, cfg.tau * cfg.tau_decay))


if __name__ == "__main__":
    main()
