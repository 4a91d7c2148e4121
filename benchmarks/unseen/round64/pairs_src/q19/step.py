from functools import partial

import jax
import jax.numpy as jnp
import optax

BATCH, LENGTH, CHANNELS = 4, 64, 3
WIDTHS = (6, 8)
MOMENTUM = 0.9
DTYPE = jnp.bfloat16


def init_conv(key, width, c_in, c_out):
    scale = (2.0 / (width * c_in)) ** 0.5
    return {
        "w": (jax.random.normal(key, (width, c_in, c_out)) * scale).astype(DTYPE),
        "b": jnp.zeros((c_out,), DTYPE),
    }


def init_norm(dim):
    params = {"scale": jnp.ones((dim,), DTYPE), "bias": jnp.zeros((dim,), DTYPE)}
    stats = {"mean": jnp.zeros((dim,), DTYPE), "var": jnp.ones((dim,), DTYPE)}
    return params, stats


def init_picker(key):
    keys = jax.random.split(key, 5)
    params, stats = {}, {}
    c_in = CHANNELS
    for i, c in enumerate(WIDTHS):
        params[f"down{i}"] = init_conv(keys[i], 5, c_in, c)
        params[f"norm{i}"], stats[f"norm{i}"] = init_norm(c)
        c_in = c
    params["up"] = init_conv(keys[2], 5, WIDTHS[1] + WIDTHS[0], WIDTHS[0])
    params["norm_up"], stats["norm_up"] = init_norm(WIDTHS[0])
    params["head"] = init_conv(keys[3], 1, WIDTHS[0], 3)
    return params, stats


def conv(p, x, stride=1):
    y = jax.lax.conv_general_dilated(
        x, p["w"], (stride,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")
    )
    return y + p["b"]


def batch_norm(p, s, x, eps=1e-3):
    x32 = x.astype(jnp.float32)
    mean = x32.mean(axis=(0, 1))
    var = jnp.square(x32).mean(axis=(0, 1)) - jnp.square(mean)
    y = (x32 - mean) * jax.lax.rsqrt(var + eps)
    y = y.astype(x.dtype) * p["scale"] + p["bias"]
    new = {
        "mean": MOMENTUM * s["mean"] + (1.0 - MOMENTUM) * mean,
        "var": MOMENTUM * s["var"] + (1.0 - MOMENTUM) * var,
    }
    return y, new


def picker(params, stats, wave):
    new = {}
    x = wave.astype(DTYPE)
    skips = []
    for i in range(len(WIDTHS)):
        x = conv(params[f"down{i}"], x, stride=1 if i == 0 else 4)
        x, new[f"norm{i}"] = batch_norm(params[f"norm{i}"], stats[f"norm{i}"], x)
        x = jax.nn.silu(x)
        skips.append(x)
    x = jnp.repeat(x, 4, axis=1)
    x = jnp.concatenate([x, skips[0]], axis=-1)
    x = conv(params["up"], x)
    x, new["norm_up"] = batch_norm(params["norm_up"], stats["norm_up"], x)
    x = jax.nn.silu(x)
    return conv(params["head"], x).astype(jnp.float32), new


def pick_loss(params, stats, batch):
    logits, new_stats = picker(params, stats, batch["wave"])
    logp = jax.nn.log_softmax(logits, axis=-1)
    ce = -(batch["phase"] * logp).sum(-1)
    return ce.mean(), new_stats


optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.scale_by_rms(decay=0.95),
    optax.scale(-3e-3),
)


@partial(jax.jit, donate_argnums=(0,))
def train_step(state, batch):
    grad_fn = jax.value_and_grad(pick_loss, has_aux=True)
    (loss, stats), grads = grad_fn(state["params"], state["stats"], batch)
    updates, opt = optimizer.update(grads, state["opt"], state["params"])
    params = optax.apply_updates(state["params"], updates)
    return {"params": params, "stats": stats, "opt": opt, "step": state["step"] + 1}, loss


def seismograms(key):
    k1, k2 = jax.random.split(key)
    wave = jax.random.normal(k1, (BATCH, LENGTH, CHANNELS))
    onset = jax.random.randint(k2, (BATCH, 2), 8, LENGTH - 8)
    t = jnp.arange(LENGTH)
    bumps = jnp.exp(-0.5 * ((t[None, :, None] - onset[:, None, :]) / 3.0) ** 2)
    noise = jnp.clip(1.0 - bumps.sum(-1, keepdims=True), 0.0, 1.0)
    phase = jnp.concatenate([noise, bumps], axis=-1)
    return {"wave": wave, "phase": phase / phase.sum(-1, keepdims=True)}


def main():
    params, stats = init_picker(jax.random.PRNGKey(0))
    state = {
        "params": params,
        "stats": stats,
        "opt": optimizer.init(params),
        "step": jnp.zeros((), jnp.int32),
    }
    for i in range(4):
        batch = seismograms(jax.random.PRNGKey(100 + i))
        state, loss = train_step(state, batch)
        print(i, float(loss))


if __name__ == "__main__":
    main()
