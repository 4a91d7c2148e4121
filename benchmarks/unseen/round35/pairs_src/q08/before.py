"""Conditional denoiser for seismogram windows, v-prediction, EMA of the weights."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

B, L, CH = 4, 32, 8


class FiLMBlock(nn.Module):
    ch: int

    @nn.compact
    def __call__(self, x, emb):
        h = nn.LayerNorm()(x)
        scale, shift = jnp.split(nn.Dense(2 * self.ch)(emb), 2, axis=-1)
        h = h * (1.0 + scale[:, None, :]) + shift[:, None, :]
        h = nn.Conv(self.ch, (3,), padding="SAME")(nn.silu(h))
        return x + h


class Denoiser(nn.Module):
    @nn.compact
    def __call__(self, x, t, station):
        freqs = jnp.exp(jnp.linspace(0.0, 4.0, 4))
        ang = t[:, None] * freqs
        emb = jnp.concatenate([jnp.sin(ang), jnp.cos(ang)], axis=-1)
        emb = nn.silu(nn.Dense(CH)(emb) + nn.Embed(5, CH)(station))
        h = nn.Conv(CH, (3,), padding="SAME")(x)
        for _ in range(2):
            h = FiLMBlock(CH)(h, emb)
        return nn.Conv(x.shape[-1], (1,), use_bias=False)(h)


model = Denoiser()
tx = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.scale_by_adam(b2=0.99),
    optax.add_decayed_weights(1e-4),
    optax.scale_by_learning_rate(optax.cosine_decay_schedule(1e-3, 1000)),
)


def loss_fn(params, batch):
    x, t, noise = batch["x"], batch["t"], batch["noise"]
    a = jnp.cos(0.5 * jnp.pi * t)[:, None, None]
    s = jnp.sin(0.5 * jnp.pi * t)[:, None, None]
    noisy = a * x + s * noise
    target = a * noise - s * x
    pred = model.apply({"params": params}, noisy, t, batch["station"])
    err = jnp.mean(jnp.square(pred - target), axis=(1, 2))
    weight = jnp.minimum(5.0, jnp.square(a / s)[:, 0, 0]) + 1.0
    return jnp.mean(weight * err)


def train_step(params, ema, opt_state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    ema = jax.tree_util.tree_map(lambda e, p: e + 0.001 * (p - e), ema, params)
    return params, ema, opt_state, {"loss": loss, "grad_norm": optax.global_norm(grads)}


def make_batch(key):
    k1, k2, k3, k4 = jax.random.split(key, 4)
    return {
        "x": jax.random.normal(k1, (B, L, 3)),
        "t": jax.random.uniform(k2, (B,), minval=0.02, maxval=0.98),
        "noise": jax.random.normal(k3, (B, L, 3)),
        "station": jax.random.randint(k4, (B,), 0, 5),
    }


def init():
    batch = make_batch(jax.random.PRNGKey(7))
    params = model.init(jax.random.PRNGKey(0), batch["x"], batch["t"], batch["station"])["params"]
    return params, params, tx.init(params)


def run(steps, path=None):
    state = init()
    step = jax.jit(train_step)
    hist = []
    for i in range(steps):
        batch = make_batch(jax.random.PRNGKey(100 + i))
        if i == 0 and path:
            with open(path, "w") as f:
                f.write(step.lower(*state, batch).compiler_ir("hlo").as_hlo_module().to_string())
        *state, logs = step(*state, batch)
        hist.append([float(v) for v in logs.values()])
    return hist


if __name__ == "__main__":
    for row in run(3, sys.argv[1]):
        print(row)
