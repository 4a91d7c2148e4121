"""Denoising model for single-lead ECG beats, with EMA weights."""
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

LENGTH, CH, LAYERS = 24, 8, 2
RATE = 0.1


def init(key):
    ks = jax.random.split(key, 2 * LAYERS + 3)
    return {
        "inp": 0.4 * jax.random.normal(ks[0], (3, 1, CH)),
        "layers": [
            {
                "conv": 0.2 * jax.random.normal(ks[1 + i], (3, CH, CH)),
                "temb": 0.2 * jax.random.normal(ks[1 + LAYERS + i], (8, CH)),
                "scale": jnp.ones(CH),
            }
            for i in range(LAYERS)
        ],
        "out": 0.1 * jax.random.normal(ks[-1], (3, CH, 1)),
    }


def conv(x, w):
    return jax.lax.conv_general_dilated(x, w, (1,), "SAME",
                                        dimension_numbers=("NWC", "WIO", "NWC"))


def alpha_bar(t):
    return 0.001 + 0.998 * jnp.cos(0.5 * jnp.pi * t) ** 2


def time_embedding(t):
    ang = t[:, None] * jnp.array([1.0, 4.0, 16.0, 64.0])
    return jnp.concatenate([jnp.sin(ang), jnp.cos(ang)], -1)


def channel_norm(x, scale):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return (x - mu) * jax.lax.rsqrt(var + 1e-5) * scale


def dropout(key, x, rate):
    keep = jax.random.bernoulli(key, 1.0 - rate, x.shape)
    return jnp.where(keep, x / (1.0 - rate), 0.0)


def denoise(params, x, t, key):
    emb = time_embedding(t)
    h = conv(x, params["inp"])
    for layer in params["layers"]:
        key, sub = jax.random.split(key)
        u = channel_norm(h, layer["scale"])
        u = jax.nn.silu(conv(u, layer["conv"]) + (emb @ layer["temb"])[:, None])
        h = h + dropout(sub, u, RATE)
    return conv(h, params["out"])


def loss_fn(params, beats, key):
    k_t, k_noise, k_drop = jax.random.split(key, 3)
    t = jax.random.uniform(k_t, (beats.shape[0],))
    noise = jax.random.normal(k_noise, beats.shape)
    a = alpha_bar(t)[:, None, None]
    noisy = jnp.sqrt(a) * beats + jnp.sqrt(1.0 - a) * noise
    pred = denoise(params, noisy, t, k_drop)
    return jnp.mean((pred - noise) ** 2)


tx = optax.lion(3e-4)


def train_step(state, beats, key):
    loss, grads = jax.value_and_grad(loss_fn)(state["params"], beats, key)
    updates, opt_state = tx.update(grads, state["opt"], state["params"])
    params = optax.apply_updates(state["params"], updates)
    ema = optax.incremental_update(params, state["ema"], 0.01)
    return {"params": params, "opt": opt_state, "ema": ema}, loss


def beats_for(seed, n=6):
    r = np.random.default_rng(seed)
    pos = np.arange(LENGTH)[None]
    mid = r.uniform(9, 15, size=(n, 1))
    x = np.exp(-0.5 * ((pos - mid) / 1.5) ** 2) + 0.05 * r.normal(size=(n, LENGTH))
    return x[..., None].astype(np.float32)


def main():
    params = init(jax.random.PRNGKey(2))
    state = {"params": params, "opt": tx.init(params), "ema": params}
    step = jax.jit(train_step)
    key = jax.random.PRNGKey(7)
    if len(sys.argv) > 1:
        ir = step.lower(state, beats_for(0), key).compiler_ir("hlo")
        with open(sys.argv[1], "w") as fh:
            fh.write(ir.as_hlo_module().to_string())
        return
    for i in range(5):
        state, loss = step(state, beats_for(i), jax.random.fold_in(key, i))
        print(i, float(loss))


if __name__ == "__main__":
    main()
