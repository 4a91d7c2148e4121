"""Small convolutional audio codec; time-domain and spectral losses are kept in proportion by running estimates."""
import functools
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

DUMP = os.environ.get("DUMP_DIR")
CHANNELS = (8, 12)
CODE = 6


def conv_init(key, width, cin, cout):
    k = jax.random.normal(key, (width, cin, cout), jnp.float32) * (width * cin) ** -0.5
    return {"w": k, "b": jnp.zeros((cout,), jnp.float32)}


def init_params(key):
    keys = iter(jax.random.split(key, 12))
    enc, dec, cin = [], [], 1
    for c in CHANNELS:
        enc.append(conv_init(next(keys), 7, cin, c))
        cin = c
    code = conv_init(next(keys), 3, cin, CODE)
    back = conv_init(next(keys), 3, CODE, cin)
    for c in (*CHANNELS[:-1][::-1], 1):
        dec.append(conv_init(next(keys), 7, cin, c))
        cin = c
    return {"enc": enc, "code": code, "back": back, "dec": dec}


def conv(p, x, stride=1, up=1):
    w, b = p["w"].astype(x.dtype), p["b"].astype(x.dtype)
    y = jax.lax.conv_general_dilated(
        x, w, (stride,), [(w.shape[0] // 2, w.shape[0] // 2 + up - 1)], lhs_dilation=(up,),
        dimension_numbers=("NWC", "WIO", "NWC"))
    return y + b


def codec(params, wav):
    h = wav.astype(jnp.bfloat16)[..., None]
    for p in params["enc"]:
        h = jax.nn.elu(conv(p, h, stride=2))
    z = jnp.tanh(conv(params["code"], h))
    z = z + jax.lax.stop_gradient(jnp.round(z * 4) / 4 - z)
    h = jax.nn.elu(conv(params["back"], z))
    for i, p in enumerate(params["dec"]):
        h = conv(p, h, up=2)
        if i + 1 < len(params["dec"]):
            h = jax.nn.elu(h)
    return h[..., 0]


def bands(x, frame):
    f = x.reshape(x.shape[0], -1, frame)
    n = jnp.arange(frame)
    basis = jnp.cos(jnp.pi / frame * (n[:, None] + 0.5) * n[None, :]).astype(x.dtype)
    return jnp.log(jnp.abs(f @ basis) + 1e-2)


def terms(params, wav):
    out = codec(params, wav)
    ref = wav.astype(out.dtype)
    time = jnp.mean(jnp.abs(out - ref), axis=-1)
    spec = sum(jnp.mean(jnp.abs(bands(out, f) - bands(ref, f)), axis=(1, 2)) for f in (16, 32))
    return {"time": time, "spec": spec}


tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(3e-4, b1=0.8, b2=0.99, weight_decay=1e-3))


@functools.partial(jax.jit, donate_argnums=(0, 1))
def train_step(params, opt_state, balance, wav):
    def objective(p):
        t = terms(p, wav)
        total = sum(jnp.mean(t[k] / balance[k]) for k in sorted(t))
        return total, t

    (loss, t), grads = jax.value_and_grad(objective, has_aux=True)(params)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    size = {k: jnp.mean(v.astype(jnp.float32)) for k, v in t.items()}
    balance = {k: 0.95 * balance[k] + 0.05 * size[k] for k in balance}
    return params, opt_state, balance, {"loss": loss, **size}


def clips(seed, batch=4, length=128):
    rng = np.random.default_rng(seed)
    t = np.arange(length) / 128.0
    while True:
        f = rng.uniform(3, 30, (batch, 1))
        yield (np.sin(2 * np.pi * f * t) + 0.05 * rng.standard_normal((batch, length))).astype(np.float32)


def main():
    params = init_params(jax.random.key(0))
    opt_state = tx.init(params)
    balance = {"time": 1.0, "spec": 1.0}
    stream = clips(5)
    for i in range(4):
        wav = next(stream)
        if DUMP:
            low = train_step.lower(params, opt_state, balance, wav)
            with open(f"{DUMP}/call{i}.hlo", "w") as f:
                f.write(low.compiler_ir("hlo").as_hlo_text())
        params, opt_state, balance, logs = train_step(params, opt_state, balance, wav)
        print(i, float(logs["loss"]), train_step._cache_size(), file=sys.stderr)


if __name__ == "__main__":
    main()
