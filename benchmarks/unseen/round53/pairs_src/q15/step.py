"""Denoising diffusion on 16x16 textures: bf16 parameters, EMA for sampling."""
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

CFG = dict(ch=16, emb=32, blocks=1, lr=3e-4, ema_decay=0.9995, timesteps=200)


class TrainState(NamedTuple):
    step: jax.Array
    params: Any
    ema_params: Any
    opt_state: Any
    rng: jax.Array


def conv_init(key, cin, cout, k=3):
    w = jax.random.normal(key, (k, k, cin, cout)) / np.sqrt(k * k * cin)
    return {"w": w, "b": jnp.zeros((cout,))}


def dense_init(key, cin, cout):
    return {"w": jax.random.normal(key, (cin, cout)) / np.sqrt(cin), "b": jnp.zeros((cout,))}


def init_params(key, dtype=jnp.bfloat16):
    k = jax.random.split(key, 10)
    c, e = CFG["ch"], CFG["emb"]
    params = {
        "time": dense_init(k[0], e, e),
        "stem": conv_init(k[1], 3, c),
        "blocks": [
            {"conv1": conv_init(k[2 + 3 * i], c, c), "emb": dense_init(k[3 + 3 * i], e, c),
             "conv2": conv_init(k[4 + 3 * i], c, c), "scale": jnp.ones((c,))}
            for i in range(CFG["blocks"])
        ],
        "out": conv_init(k[8], c, 3),
    }
    return jax.tree.map(lambda p: p.astype(dtype), params)


def conv(p, x):
    y = jax.lax.conv_general_dilated(x, p["w"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y + p["b"]


def dense(p, x):
    return x @ p["w"] + p["b"]


def rms_norm(scale, x):
    var = jnp.mean(jnp.square(x.astype(jnp.float32)), axis=(1, 2), keepdims=True)
    return (x * jax.lax.rsqrt(var + 1e-6)).astype(x.dtype) * scale


def time_embedding(t, dim):
    freqs = jnp.exp(-np.log(10000.0) * jnp.arange(dim // 2) / (dim // 2))
    a = t[:, None] * freqs
    return jnp.concatenate([jnp.sin(a), jnp.cos(a)], -1)


def denoiser(params, x, t):
    dtype = params["stem"]["w"].dtype
    emb = jax.nn.silu(dense(params["time"], time_embedding(t, CFG["emb"]).astype(dtype)))
    h = conv(params["stem"], x.astype(dtype))
    for blk in params["blocks"]:
        r = conv(blk["conv1"], jax.nn.silu(rms_norm(blk["scale"], h)))
        r = r + dense(blk["emb"], emb)[:, None, None, :]
        h = h + conv(blk["conv2"], jax.nn.silu(r))
    return conv(params["out"], jax.nn.silu(h))


def alpha_bar(t):
    s = t / CFG["timesteps"]
    return jnp.cos((s + 0.008) / 1.008 * np.pi / 2) ** 2


def loss_fn(params, x0, rng):
    rng_t, rng_n = jax.random.split(rng)
    t = jax.random.randint(rng_t, (x0.shape[0],), 0, CFG["timesteps"])
    noise = jax.random.normal(rng_n, x0.shape)
    ab = alpha_bar(t)[:, None, None, None]
    pred = denoiser(params, jnp.sqrt(ab) * x0 + jnp.sqrt(1 - ab) * noise, t)
    return jnp.mean(jnp.square(pred.astype(jnp.float32) - noise))


tx = optax.adam(CFG["lr"], b2=0.99)


def update_ema(ema_params, params, step):
    decay = jnp.minimum(CFG["ema_decay"], (1 + step) / (10 + step))
    return jax.tree.map(lambda e, p: decay * e + (1 - decay) * p, ema_params, params)


@jax.jit
def train_step(state, batch):
    rng, step_rng = jax.random.split(state.rng)
    loss, grads = jax.value_and_grad(loss_fn)(state.params, batch, step_rng)
    updates, opt_state = tx.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    ema_params = update_ema(state.ema_params, params, state.step)
    return TrainState(state.step + 1, params, ema_params, opt_state, rng), loss


def create_state(seed=0):
    key, rng = jax.random.split(jax.random.PRNGKey(seed))
    params = init_params(key)
    return TrainState(jnp.zeros((), jnp.int32), params, params, tx.init(params), rng)


def main(steps=4, batch=4):
    data = np.random.default_rng(0)
    state = create_state()
    for step in range(steps):
        x = data.standard_normal((batch, 16, 16, 3)).astype(np.float32)
        state, loss = train_step(state, x)
        print(step, float(loss))


if __name__ == "__main__":
    main()
