"""Object discovery on toy scenes: slot attention auto-encoder."""
import functools

import jax
import jax.numpy as jnp
import numpy as np

SLOTS, D, PIX, ITERS = 4, 12, 25, 2


def dense(key, i, o):
    return {"kernel": jax.random.normal(key, (i, o)) / np.sqrt(i), "bias": jnp.zeros((o,))}


def init_params(key):
    ks = iter(jax.random.split(key, 12))
    return {
        "encode": dense(next(ks), 3 + 2, D),
        "k": dense(next(ks), D, D), "q": dense(next(ks), D, D), "v": dense(next(ks), D, D),
        "gate": dense(next(ks), 2 * D, D),
        "slots": jax.random.normal(next(ks), (SLOTS, D)) * 0.5,
        "decode1": dense(next(ks), D + 2, D), "decode2": dense(next(ks), D, 4),
        "ln": {"scale": jnp.ones(D), "offset": jnp.zeros(D)},
    }


def apply(p, x):
    return x @ p["kernel"] + p["bias"]


def layer_norm(p, x):
    mu = x.mean(-1, keepdims=True)
    var = jnp.mean((x - mu) ** 2, -1, keepdims=True)
    return (x - mu) * jax.lax.rsqrt(var + 1e-5) * p["scale"] + p["offset"]


def grid():
    side = int(PIX ** 0.5)
    a = jnp.linspace(-1, 1, side)
    return jnp.stack(jnp.meshgrid(a, a), -1).reshape(PIX, 2)


def attend(params, feats, slots):
    k, v, q = apply(params["k"], feats), apply(params["v"], feats), apply(params["q"], slots)
    logits = jnp.einsum("bsd,bnd->bsn", q, k) / np.sqrt(D)
    attn = jax.nn.softmax(logits, axis=2)
    attn = attn / (attn.sum(axis=2, keepdims=True) + 1e-6)
    return jnp.einsum("bsn,bnd->bsd", attn, v)


def reconstruct(params, images):
    b = images.shape[0]
    pos = grid()
    feats = apply(params["encode"], jnp.concatenate([images, jnp.tile(pos, (b, 1, 1))], -1))
    feats = layer_norm(params["ln"], jax.nn.relu(feats))
    slots = jnp.broadcast_to(params["slots"], (b, SLOTS, D))
    for _ in range(ITERS):
        update = attend(params, feats, slots)
        z = jax.nn.sigmoid(apply(params["gate"], jnp.concatenate([slots, update], -1)))
        slots = z * slots + (1 - z) * jnp.tanh(update)
    cells = jnp.concatenate([jnp.broadcast_to(slots[:, :, None], (b, SLOTS, PIX, D)),
                             jnp.broadcast_to(pos, (b, SLOTS, PIX, 2))], -1)
    out = apply(params["decode2"], jax.nn.relu(apply(params["decode1"], cells)))
    alpha = jax.nn.softmax(out[..., 3:], axis=1)
    return (alpha * out[..., :3]).sum(1)


@functools.partial(jax.jit, donate_argnums=(0, 1))
def step(params, accum, images, lr):
    loss, g = jax.value_and_grad(lambda p: jnp.mean((reconstruct(p, images) - images) ** 2))(params)
    accum = jax.tree.map(lambda a, d: 0.95 * a + 0.05 * d ** 2, accum, g)
    params = jax.tree.map(lambda p, d, a: p - lr * d * jax.lax.rsqrt(a + 1e-8), params, g, accum)
    return params, accum, loss


def scenes(rng, n=6):
    img = np.zeros((n, 5, 5, 3), np.float32)
    for i in range(n):
        for c in range(3):
            y, x = rng.integers(0, 4, 2)
            img[i, y:y + 2, x:x + 2, c] = 1
    return jnp.asarray(img.reshape(n, PIX, 3))


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    params = init_params(jax.random.PRNGKey(7))
    accum = jax.tree.map(jnp.zeros_like, params)
    for it in range(40):
        params, accum, loss = step(params, accum, scenes(rng), 2e-3)
        if it % 20 == 19:
            print(it, float(loss))
