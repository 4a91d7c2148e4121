"""Supervised contrastive training of a small audio embedder (JAX, no flax)."""
import os
import sys
from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax


def conv1d(x, w, stride):
    return jax.lax.conv_general_dilated(x, w, (stride,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))


def rms_norm(x, g):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * g


@dataclass(frozen=True)
class Embedder:
    channels: int = 12
    dim: int = 16
    depth: int = 2
    noise: float = 0.0

    def init(self, key):
        ks = iter(jax.random.split(key, self.depth + 2))
        p = {"stem": jax.random.normal(next(ks), (5, 1, self.channels)) * 0.3, "blocks": []}
        for _ in range(self.depth):
            p["blocks"].append({
                "w": jax.random.normal(next(ks), (3, self.channels, self.channels)) * 0.15,
                "g": jnp.ones((self.channels,)),
            })
        p["proj"] = jax.random.normal(next(ks), (2 * self.channels, self.dim)) * 0.2
        return p

    def __call__(self, p, wav, key):
        if self.noise:
            wav = wav + self.noise * jax.random.normal(key, wav.shape)
        h = conv1d(wav[..., None], p["stem"], 4)
        for b in p["blocks"]:
            h = h + conv1d(jax.nn.gelu(rms_norm(h, b["g"])), b["w"], 1)
        h = jnp.concatenate([h.mean(1), h.max(1)], -1) @ p["proj"]
        return h / jnp.maximum(jnp.linalg.norm(h, axis=-1, keepdims=True), 1e-6)


@dataclass(frozen=True)
class Objective:
    net: Embedder
    tau: float = 0.2
    margin: float = 0.0
    reg: float = 0.05

    def __call__(self, params, wav, labels, key):
        z = self.net(params, wav, key)
        n = z.shape[0]
        same = (labels[:, None] == labels[None, :]) & ~jnp.eye(n, dtype=bool)
        sim = z @ z.T
        logits = (sim - self.margin * same) / self.tau
        logits = jnp.where(jnp.eye(n, dtype=bool), -1e9, logits)
        logp = logits - jax.nn.logsumexp(logits, axis=-1, keepdims=True)
        pos = jnp.sum(logp * same, -1) / jnp.maximum(same.sum(-1), 1)
        koleo = -jnp.log(jnp.sqrt(jnp.min(2.0 - 2.0 * sim + 4.0 * jnp.eye(n), -1) + 1e-6)).mean()
        return -pos.mean() + self.reg * koleo


def optimizer(lr=1e-3):
    return optax.chain(optax.clip_by_global_norm(1.0), optax.lion(lr, weight_decay=1e-3))


@partial(jax.jit, static_argnums=0)
def train_step(objective, params, opt_state, wav, labels, key):
    loss, grads = jax.value_and_grad(objective)(params, wav, labels, key)
    updates, opt_state = optimizer().update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def batches(rng, n, classes=4, per=4, length=64):
    t = np.arange(length)
    for _ in range(n):
        labels = np.repeat(np.arange(classes), per).astype(np.int32)
        f = 0.02 * (labels + 1)[:, None]
        wav = np.sin(2 * np.pi * f * t + rng.uniform(0, 6, (len(labels), 1)))
        yield (wav + 0.1 * rng.normal(size=wav.shape)).astype(np.float32), labels


def cosine(a, b, frac):
    return float(b + 0.5 * (a - b) * (1 + np.cos(np.pi * frac)))


def main(epochs=3, per_epoch=3, dump=os.environ.get("HLO_DUMP")):
    rng = np.random.default_rng(5)
    key = jax.random.key(5)
    objective = Objective(Embedder(noise=0.02), tau=0.2, margin=0.1)
    params = objective.net.init(key)
    opt_state = optimizer().init(params)
    call = 0
    for epoch in range(epochs):
        objective = replace(objective, tau=cosine(0.2, 0.07, epoch / epochs))
        for wav, labels in batches(rng, per_epoch):
            key, sub = jax.random.split(key)
            args = (objective, params, opt_state, wav, labels, sub)
            if dump:
                with open(f"{dump}.{call}", "w") as f:
                    f.write(train_step.lower(*args).compiler_ir("hlo").as_hlo_text())
            params, opt_state, loss = train_step(*args)
            print(call, epoch, float(loss), "compiled", train_step._cache_size(), file=sys.stderr)
            call += 1


if __name__ == "__main__":
    main()
