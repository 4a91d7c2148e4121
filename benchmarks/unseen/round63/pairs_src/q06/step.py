"""Concrete autoencoder that selects m/z channels from mass-spectrometry profiles."""
import dataclasses
import functools
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

DUMP = os.environ.get("DUMP_DIR")


@dataclasses.dataclass(frozen=True)
class Spec:
    channels: int = 40
    selected: int = 6
    hidden: int = 24
    depth: int = 1
    dropout: float = 0.1
    temp: float = 4.0
    temp_end: float = 0.1
    epochs: int = 6
    lr: float = 2e-3
    overlap: float = 0.05


class Selector(nn.Module):
    spec: Spec

    @nn.compact
    def __call__(self, x, train):
        s = self.spec
        logits = self.param("logits", nn.initializers.normal(0.01), (s.selected, s.channels))
        if train:
            u = jax.random.uniform(self.make_rng("select"), logits.shape, minval=1e-6, maxval=1.0)
            pick = jax.nn.softmax((logits - jnp.log(-jnp.log(u) + 1e-6)) / s.temp, axis=-1)
        else:
            pick = jax.nn.one_hot(jnp.argmax(logits, -1), s.channels)
        return x @ pick.T, jax.nn.softmax(logits / s.temp, axis=-1)


class ConcreteAutoencoder(nn.Module):
    spec: Spec

    @nn.compact
    def __call__(self, x, train=True):
        s = self.spec
        z, probs = Selector(s, name="selector")(x, train)
        h = z
        for _ in range(s.depth):
            h = nn.LayerNorm()(nn.Dense(s.hidden)(h))
            h = nn.leaky_relu(h, 0.2)
            h = nn.Dropout(s.dropout, deterministic=not train)(h)
        return nn.Dense(s.channels)(h), probs


def make_tx(s):
    return optax.chain(optax.clip_by_global_norm(5.0), optax.adam(s.lr))


@functools.partial(jax.jit, static_argnames=("spec",))
def update(state, batch, rng, spec):
    params, opt_state = state
    model = ConcreteAutoencoder(spec)
    k_sel, k_drop = jax.random.split(rng)

    def loss_fn(p):
        recon, probs = model.apply(
            {"params": p}, batch["profile"], rngs={"select": k_sel, "dropout": k_drop})
        err = jnp.square(recon - batch["profile"]).mean(-1)
        fit = jnp.sum(err * batch["weight"]) / jnp.sum(batch["weight"])
        crowd = jnp.square(jax.nn.relu(probs.sum(0) - 1.0)).sum()
        return fit + spec.overlap * crowd, (fit, probs.max(-1).mean())

    (loss, (fit, sharp)), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
    updates, opt_state = make_tx(spec).update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return (params, opt_state), {"loss": loss, "fit": fit, "sharp": sharp}


def profiles(seed, spec, batch=16):
    rng = np.random.default_rng(seed)
    mix = rng.gamma(1.0, 1.0, (3, spec.channels)).astype(np.float32)
    while True:
        a = rng.dirichlet([1, 1, 1], batch).astype(np.float32)
        x = np.log1p(a @ mix + 0.05 * rng.random((batch, spec.channels), dtype=np.float32))
        yield {"profile": x, "weight": rng.uniform(0.5, 1.5, batch).astype(np.float32)}


def main(steps_per_epoch=3):
    spec = Spec()
    rng = jax.random.key(1)
    stream = profiles(2, spec)
    params = ConcreteAutoencoder(spec).init(
        {"params": rng, "select": rng, "dropout": rng}, next(stream)["profile"])["params"]
    state = (params, make_tx(spec).init(params))
    ratio = (spec.temp_end / spec.temp) ** (1.0 / spec.epochs)
    n = 0
    for epoch in range(spec.epochs):
        for _ in range(steps_per_epoch):
            rng, key = jax.random.split(rng)
            batch = next(stream)
            if DUMP:
                low = update.lower(state, batch, key, spec)
                with open(f"{DUMP}/call{n}.hlo", "w") as f:
                    f.write(low.compiler_ir("hlo").as_hlo_text())
            state, logs = update(state, batch, key, spec)
            n += 1
        print(epoch, float(logs["fit"]), float(logs["sharp"]), update._cache_size(), file=sys.stderr)
        spec = dataclasses.replace(spec, temp=spec.temp * ratio)


if __name__ == "__main__":
    main()
