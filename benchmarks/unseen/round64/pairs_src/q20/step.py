import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import optax

VOCAB, DIM, STATE, LENGTH, BATCH = 5, 8, 6, 24, 4


@dataclasses.dataclass(frozen=True)
class Config:
    layers: int = 1
    dropout: float = 0.1
    mask_rate: float = 0.15
    lr: float = 3e-3
    weight_decay: float = 0.02
    clip: float = 1.0
    b2: float = 0.98


def init_params(key, cfg):
    keys = jax.random.split(key, 2 + 4 * cfg.layers)
    params = {
        "embed": jax.random.normal(keys[0], (VOCAB + 1, DIM)) * 0.1,
        "head": jax.random.normal(keys[1], (DIM, VOCAB)) * 0.1,
        "layers": [],
    }
    for i in range(cfg.layers):
        k = keys[2 + 4 * i :]
        params["layers"].append(
            {
                "log_a": jnp.log(jnp.linspace(0.2, 2.0, STATE)),
                "log_dt": jnp.full((DIM,), -2.3, jnp.float32),
                "b": jax.random.normal(k[0], (DIM, STATE)) * 0.3,
                "c": jax.random.normal(k[1], (DIM, STATE)) * 0.3,
                "gate": jax.random.normal(k[2], (DIM, DIM)) * 0.2,
                "out": jax.random.normal(k[3], (DIM, DIM)) * 0.2,
            }
        )
    return params


def rms_norm(x):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def ssm(p, u, reverse=False):
    dt = jnp.exp(p["log_dt"])
    decay = jnp.exp(-dt[:, None] * jnp.exp(p["log_a"]))
    drive = u[..., None] * (dt[:, None] * p["b"])

    def step(h, d):
        h = decay * h + d
        return h, jnp.einsum("bds,ds->bd", h, p["c"])

    h0 = jnp.zeros((u.shape[0], DIM, STATE))
    _, y = jax.lax.scan(step, h0, jnp.moveaxis(drive, 1, 0), reverse=reverse)
    return jnp.moveaxis(y, 0, 1)


def genome_model(params, tokens, key, cfg):
    x = params["embed"][tokens]
    for i, p in enumerate(params["layers"]):
        u = rms_norm(x)
        y = ssm(p, u, reverse=i % 2 == 1) * jax.nn.sigmoid(u @ p["gate"])
        y = y @ p["out"]
        keep = jax.random.bernoulli(jax.random.fold_in(key, i), 1.0 - cfg.dropout, y.shape)
        x = x + jnp.where(keep, y / (1.0 - cfg.dropout), 0.0)
    return x @ params["head"]


def masked_lm_loss(params, seq, key, cfg):
    k_mask, k_drop = jax.random.split(key)
    mask = jax.random.uniform(k_mask, seq.shape) < cfg.mask_rate
    logits = genome_model(params, jnp.where(mask, VOCAB, seq), k_drop, cfg)
    ce = optax.softmax_cross_entropy_with_integer_labels(logits, seq)
    return (ce * mask).sum() / jnp.maximum(mask.sum(), 1)


def make_optimizer(cfg):
    return optax.chain(
        optax.clip_by_global_norm(cfg.clip),
        optax.adamw(cfg.lr, b2=cfg.b2, weight_decay=cfg.weight_decay),
    )


@partial(jax.jit, static_argnames=("cfg",))
def train_step(params, opt_state, seq, key, cfg):
    loss, grads = jax.value_and_grad(masked_lm_loss)(params, seq, key, cfg)
    updates, opt_state = make_optimizer(cfg).update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


class Plateau:
    def __init__(self, factor=0.5, patience=1):
        self.factor, self.patience = factor, patience
        self.best, self.bad = float("inf"), 0

    def update(self, cfg, value):
        if value < self.best - 1e-3:
            self.best, self.bad = value, 0
            return cfg
        self.bad += 1
        if self.bad <= self.patience:
            return cfg
        self.bad = 0
        return dataclasses.replace(cfg, lr=cfg.lr * self.factor)


def main():
    cfg = Config()
    plateau = Plateau()
    key = jax.random.PRNGKey(2)
    params = init_params(key, cfg)
    opt_state = make_optimizer(cfg).init(params)
    for epoch in range(8):
        total = 0.0
        for _ in range(2):
            key, k_data, k_step = jax.random.split(key, 3)
            seq = jax.random.randint(k_data, (BATCH, LENGTH), 0, VOCAB)
            params, opt_state, loss = train_step(params, opt_state, seq, k_step, cfg)
            total += float(loss)
        cfg = plateau.update(cfg, total / 2)
        print(epoch, round(total / 2, 4))


if __name__ == "__main__":
    main()
