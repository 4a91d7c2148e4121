"""DDPM-ish denoiser on 1-D signals; plain jax, optax optimizer."""
import jax
import jax.numpy as jnp
import numpy as np
import optax

T = 50
LEN, HID, EMB = 20, 24, 8
BETAS = np.linspace(1e-4, 0.05, T).astype(np.float32)
ALPHA_BAR = jnp.asarray(np.cumprod(1.0 - BETAS))


def dense_init(key, n_in, n_out):
    return {"kernel": jax.random.normal(key, (n_in, n_out)) / jnp.sqrt(n_in), "bias": jnp.zeros(n_out)}


def init_params(key):
    ks = jax.random.split(key, 4)
    return {
        "embed_in": dense_init(ks[0], LEN, HID),
        "time": dense_init(ks[1], EMB, HID),
        "hidden": dense_init(ks[2], HID, HID),
        "proj": dense_init(ks[3], HID, LEN),
    }


def dense(p, x):
    return x @ p["kernel"] + p["bias"]


def time_embedding(t):
    freqs = jnp.exp(-jnp.log(1000.0) * jnp.arange(EMB // 2) / (EMB // 2))
    ang = t.astype(jnp.float32)[:, None] * freqs[None]
    return jnp.concatenate([jnp.sin(ang), jnp.cos(ang)], axis=-1)


def denoise(params, x, t):
    h = dense(params["embed_in"], x)
    e = dense(params["time"], time_embedding(t))
    h = jnp.tanh(h + e)
    h = h + jnp.tanh(dense(params["hidden"], h))
    return dense(params["proj"], h)


def loss_fn(params, x0, t, noise):
    ab = ALPHA_BAR[t][:, None]
    xt = jnp.sqrt(ab) * x0 + jnp.sqrt(1.0 - ab) * noise
    pred = denoise(params, xt, t)
    diff = pred - noise
    return jnp.mean(diff ** 2), jnp.mean(jnp.abs(diff))


tx = optax.adamw(3e-3, b1=0.9, b2=0.98, eps=1e-7, weight_decay=0.02)


def update(params, opt_state, x0, t, noise):
    (loss, mae), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, x0, t, noise)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, loss, mae


step = jax.jit(update)


def main():
    rng = np.random.default_rng(1)
    params = init_params(jax.random.PRNGKey(1))
    opt_state = tx.init(params)
    for i in range(3):
        x0 = rng.normal(size=(6, LEN)).astype(np.float32)
        t = rng.integers(0, T, 6).astype(np.int32)
        noise = rng.normal(size=(6, LEN)).astype(np.float32)
        params, opt_state, loss, mae = step(params, opt_state, x0, t, noise)
        print(i, float(loss), float(mae))


if __name__ == "__main__":
    main()
