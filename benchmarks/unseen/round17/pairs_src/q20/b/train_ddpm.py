"""Denoising diffusion on 1-D sensor traces: conv net with time embedding, EMA weights."""
import jax
import jax.numpy as jnp
import numpy as np

LENGTH, CHANNELS, BATCH, T_STEPS = 32, 16, 8, 50
LR, EMA = 2e-3, 0.99


def conv_init(key, width, cin, cout):
    return jax.random.normal(key, (width, cin, cout)) * (width * cin) ** -0.5


def init(key):
    k = jax.random.split(key, 6)
    return {
        "conv_in": conv_init(k[0], 3, 1, CHANNELS),
        "conv_a": conv_init(k[1], 3, CHANNELS, CHANNELS),
        "conv_b": conv_init(k[2], 3, CHANNELS, CHANNELS),
        "conv_out": conv_init(k[3], 3, CHANNELS, 1),
        "time": jax.random.normal(k[4], (16, CHANNELS)) * 0.25,
        "gain": jnp.ones(CHANNELS),
    }


def schedule():
    beta = np.linspace(1e-3, 0.08, T_STEPS, dtype=np.float32)
    return jnp.cumprod(1.0 - beta)


def conv(x, w):
    return jax.lax.conv_general_dilated(
        x, w, window_strides=(1,), padding="SAME", dimension_numbers=("NWC", "WIO", "NWC"))


def time_features(t):
    freq = jnp.exp(-jnp.arange(8) * (np.log(1000.0) / 8))
    ang = t[:, None] * freq[None]
    return jnp.concatenate([jnp.sin(ang), jnp.cos(ang)], axis=-1)


def group_norm(x, gain, groups=4):
    b, n, c = x.shape
    g = x.reshape(b, n, groups, c // groups)
    g = (g - g.mean((1, 3), keepdims=True)) * jax.lax.rsqrt(g.var((1, 3), keepdims=True) + 1e-5)
    return g.reshape(b, n, c) * gain


def eps_net(p, x, t):
    emb = jax.nn.silu(time_features(t) @ p["time"])[:, None]
    h = conv(x, p["conv_in"])
    for name in ("conv_a", "conv_b"):
        h = h + conv(jax.nn.silu(group_norm(h, p["gain"]) + emb), p[name])
    return conv(jax.nn.silu(h), p["conv_out"])


def diffusion_loss(p, x0, t, noise):
    a = schedule()[t][:, None, None]
    xt = jnp.sqrt(a) * x0 + jnp.sqrt(1.0 - a) * noise
    err = eps_net(p, xt, t.astype(jnp.float32)) - noise
    return jnp.mean(jnp.abs(err))


def clip(grads):
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
    return jax.tree.map(lambda g: g * jnp.minimum(1.0, 1.0 / (norm + 1e-6)), grads)


@jax.jit
def train_step(state, x0, key):
    k_t, k_n = jax.random.split(key)
    t = jax.random.randint(k_t, (x0.shape[0],), 0, T_STEPS)
    noise = jax.random.normal(k_n, x0.shape)
    loss, grads = jax.value_and_grad(diffusion_loss)(state["params"], x0, t, noise)
    mom = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mom"], clip(grads))
    params = jax.tree.map(lambda p, m: p - LR * m, state["params"], mom)
    ema = jax.tree.map(lambda e, p: EMA * e + (1 - EMA) * p, state["ema"], params)
    return {"params": params, "mom": mom, "ema": ema}, loss


def traces(rng):
    phase = rng.uniform(0, 6.28, (BATCH, 1))
    return np.sin(np.arange(LENGTH) * 0.4 + phase)[..., None].astype(np.float32)


def main():
    params = init(jax.random.PRNGKey(0))
    state = {"params": params, "mom": jax.tree.map(jnp.zeros_like, params), "ema": params}
    rng = np.random.default_rng(0)
    for i in range(3):
        state, loss = train_step(state, traces(rng), jax.random.PRNGKey(100 + i))
        print(f"{i:03d} {float(loss):.4f}")


if __name__ == "__main__":
    main()
