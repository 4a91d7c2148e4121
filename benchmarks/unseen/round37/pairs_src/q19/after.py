"""Density and colour of a bee-hive scan from posed photographs: one NeRF training step."""
import sys

import jax
import jax.numpy as jnp
import optax

FREQS, HID, SAMPLES, RAYS = 3, 12, 8, 5
NEAR, FAR = 1.0, 4.0


def dense_init(key, n_in, n_out):
    w = jax.random.normal(key, (n_in, n_out)) * jnp.sqrt(2.0 / n_in)
    return {"kernel": w, "bias": jnp.zeros(n_out)}


def init(key):
    k = jax.random.split(key, 5)
    enc = 3 + 6 * FREQS
    return {
        "trunk_0": dense_init(k[0], enc, HID),
        "trunk_1": dense_init(k[1], HID, HID),
        "sigma": dense_init(k[2], HID, 1),
        "view": dense_init(k[3], HID + 3, HID),
        "rgb": dense_init(k[4], HID, 3),
    }


def dense(p, x):
    return jnp.dot(x, p["kernel"]) + p["bias"]


def positional_encoding(x):
    out = [x]
    for i in range(FREQS):
        out.append(jnp.sin(x * 2.0**i))
        out.append(jnp.cos(x * 2.0**i))
    return jnp.concatenate(out, axis=-1)


def field(params, points, dirs):
    h = positional_encoding(points)
    h = jax.nn.relu(dense(params["trunk_0"], h))
    h = jax.nn.relu(dense(params["trunk_1"], h))
    sigma = jax.nn.softplus(dense(params["sigma"], h)[..., 0])
    h = jnp.concatenate([h, dirs], axis=-1)
    h = jax.nn.relu(dense(params["view"], h))
    return sigma, jax.nn.sigmoid(dense(params["rgb"], h))


def sample_depths(jitter):
    edges = jnp.linspace(NEAR, FAR, SAMPLES + 1)
    return edges[:-1] + jitter * (edges[1:] - edges[:-1])


def composite(sigma, rgb, depths):
    """One ray: sigma and depths [S], rgb [S, 3]."""
    delta = jnp.diff(depths, append=FAR + 1.0)
    optical = sigma * delta
    # transmittance up to the near side of each sample, in log space
    trans = jnp.exp(optical - jnp.cumsum(optical))
    weights = -jnp.expm1(-optical) * trans
    colour = weights @ rgb + (1.0 - weights.sum())
    return colour, weights


def render_ray(params, origin, direction, jitter):
    depths = sample_depths(jitter)
    points = origin + jnp.outer(depths, direction)
    sigma, rgb = field(params, points, jnp.broadcast_to(direction, points.shape))
    return composite(sigma, rgb, depths)


render = jax.vmap(render_ray, in_axes=(None, 0, 0, 0))


def loss_fn(params, origins, dirs, jitter, target):
    colour, weights = render(params, origins, dirs, jitter)
    opacity = jnp.clip(jnp.sum(weights, axis=-1), 1e-4, 1.0 - 1e-4)
    entropy = -(opacity * jnp.log(opacity) + (1.0 - opacity) * jnp.log1p(-opacity))
    return jnp.mean(jnp.square(colour - target)) + 1e-3 * jnp.mean(entropy)


tx = optax.adam(optax.exponential_decay(5e-3, 1000, 0.5))


def train_step(params, opt_state, origins, dirs, jitter, target):
    loss, grads = jax.value_and_grad(loss_fn)(params, origins, dirs, jitter, target)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def rays(key):
    k = jax.random.split(key, 4)
    origins = 0.1 * jax.random.normal(k[0], (RAYS, 3))
    dirs = jax.random.normal(k[1], (RAYS, 3))
    dirs = dirs / jnp.linalg.norm(dirs, axis=-1, keepdims=True)
    return origins, dirs, jax.random.uniform(k[2], (RAYS, SAMPLES)), jax.random.uniform(k[3], (RAYS, 3))


def main(dump=None, steps=4):
    params = init(jax.random.PRNGKey(3))
    opt_state = tx.init(params)
    step = jax.jit(train_step)
    if dump:
        with open(dump, "w") as f:
            lowered = step.lower(params, opt_state, *rays(jax.random.PRNGKey(7)))
            f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    losses = []
    for i in range(steps):
        params, opt_state, loss = step(params, opt_state, *rays(jax.random.PRNGKey(i)))
        losses.append(float(loss))
    return losses, params


if __name__ == "__main__":
    print(main(*sys.argv[1:])[0])
