"""Radiance-field fitting for underwater captures: density + colour MLP, ray marching
with per-channel water attenuation, photometric loss and an opacity prior."""
import os
import sys

import jax
import jax.numpy as jnp
import optax

RAYS, SAMPLES, FREQS, WIDTH = 8, 6, 3, 14
NEAR, FAR = 0.5, 3.0

tx = optax.chain(
    optax.scale_by_adam(b1=0.9, b2=0.99, eps=1e-10),
    optax.scale_by_schedule(optax.exponential_decay(1.0, 100, 0.3)),
    optax.scale(-5e-3),
)


def dense_init(key, n_in, n_out):
    return {"w": jax.random.normal(key, (n_in, n_out)) * (2.0 / n_in) ** 0.5, "b": jnp.zeros((n_out,))}


def init_params(key):
    k = jax.random.split(key, 6)
    enc = 3 + 6 * FREQS
    return {
        "l0": dense_init(k[0], enc, WIDTH),
        "l1": dense_init(k[1], WIDTH + enc, WIDTH),
        "sigma": dense_init(k[2], WIDTH, 1),
        "c0": dense_init(k[3], WIDTH + 3, WIDTH),
        "rgb": dense_init(k[4], WIDTH, 3),
        "water": {"beta": jnp.full((3,), -1.0), "veil": jnp.zeros((3,))},
    }


def dense(p, x):
    return x @ p["w"] + p["b"]


def encode(x):
    scaled = x[..., None, :] * (2.0 ** jnp.arange(FREQS))[:, None]
    waves = jnp.concatenate([jnp.sin(scaled), jnp.cos(scaled)], axis=-1)
    return jnp.concatenate([x, waves.reshape(*x.shape[:-1], -1)], axis=-1)


def field(params, pts, dirs):
    e = encode(pts)
    h = jax.nn.relu(dense(params["l0"], e))
    h = jax.nn.relu(dense(params["l1"], jnp.concatenate([h, e], axis=-1)))
    sigma = jax.nn.softplus(dense(params["sigma"], h)[..., 0] - 1.0)
    d = jnp.broadcast_to(dirs[:, None, :], pts.shape)
    c = jax.nn.relu(dense(params["c0"], jnp.concatenate([h, d], axis=-1)))
    return sigma, jax.nn.sigmoid(dense(params["rgb"], c))


def render(params, origins, dirs, t):
    pts = origins[:, None, :] + dirs[:, None, :] * t[..., None]
    sigma, rgb = field(params, pts, dirs)
    delta = jnp.concatenate([t[:, 1:] - t[:, :-1], jnp.full((t.shape[0], 1), 1e2)], axis=-1)
    alpha = 1.0 - jnp.exp(-sigma * delta)
    free = jnp.cumprod(1.0 - alpha + 1e-10, axis=-1)
    trans = jnp.concatenate([jnp.ones_like(free[:, :1]), free[:, :-1]], axis=-1)
    weights = alpha * trans
    through = jnp.exp(-jax.nn.softplus(params["water"]["beta"]) * t[..., None])
    veil = jax.nn.sigmoid(params["water"]["veil"])
    colour = (weights[..., None] * (rgb * through + veil * (1.0 - through))).sum(axis=1)
    return colour, weights.sum(axis=-1)


def loss_fn(params, batch, key):
    u = jax.random.uniform(key, (RAYS, SAMPLES))
    t = NEAR + (FAR - NEAR) * (jnp.arange(SAMPLES) + u) / SAMPLES
    colour, opacity = render(params, batch["o"], batch["d"], t)
    photo = ((colour - batch["rgb"]) ** 2).mean()
    prior = (opacity * (1.0 - opacity)).mean()
    return photo + 1e-2 * prior, {"psnr": -10.0 * jnp.log10(photo), "opacity": opacity.mean()}


def train_step(params, opt_state, batch, key):
    (loss, aux), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch, key)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss, aux


def make_batch(key):
    k = jax.random.split(key, 3)
    d = jax.random.normal(k[1], (RAYS, 3))
    return {
        "o": 0.1 * jax.random.normal(k[0], (RAYS, 3)),
        "d": d / jnp.linalg.norm(d, axis=-1, keepdims=True),
        "rgb": jax.random.uniform(k[2], (RAYS, 3)),
    }


def main():
    params = init_params(jax.random.PRNGKey(0))
    opt_state = tx.init(params)
    step = jax.jit(train_step)
    key = jax.random.PRNGKey(2)
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w") as f:
            f.write(step.lower(params, opt_state, make_batch(key), key).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(int(os.environ.get("STEPS", 3))):
        key, sub = jax.random.split(key)
        params, opt_state, loss, aux = step(params, opt_state, make_batch(sub), sub)
        print(i, float(loss), float(aux["psnr"]))


if __name__ == "__main__":
    main()
