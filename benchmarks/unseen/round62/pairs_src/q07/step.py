"""Fourier neural operator, one-step emulator of shallow-water fields, mixed precision."""
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax


@dataclasses.dataclass(frozen=True)
class Config:
    grid: int = 16
    fields: int = 3
    width: int = 12
    modes: int = 4
    depth: int = 2
    lr: float = 1e-3
    steps: int = 8
    noise_start: float = 0.03
    noise_end: float = 0.003
    noise_hold: int = 3
    dtype: str = "bfloat16"


def init(cfg, key):
    keys = iter(jax.random.split(key, 4 * cfg.depth + 4))

    def lin(nin, nout):
        return {"w": jax.random.normal(next(keys), (nin, nout)) / np.sqrt(nin),
                "b": jnp.zeros((nout,))}

    blocks = []
    for _ in range(cfg.depth):
        shape = (2, 2, cfg.width, cfg.width, cfg.modes, cfg.modes)
        blocks.append({"spec": jax.random.normal(next(keys), shape) / cfg.width,
                       "skip": lin(cfg.width, cfg.width),
                       "scale": jnp.ones((cfg.width,))})
    return {"lift": lin(cfg.fields + 2, cfg.width), "blocks": blocks,
            "proj1": lin(cfg.width, 2 * cfg.width), "proj2": lin(2 * cfg.width, cfg.fields)}


def linear(p, x):
    return x @ p["w"].astype(x.dtype) + p["b"].astype(x.dtype)


def spectral(p, x, modes):
    h, w = x.shape[1:3]
    xf = jnp.fft.rfft2(x.astype(jnp.float32), axes=(1, 2))
    k = jax.lax.complex(p[0], p[1])
    lo = jnp.einsum("bxyi,ioxy->bxyo", xf[:, :modes, :modes], k[0])
    hi = jnp.einsum("bxyi,ioxy->bxyo", xf[:, -modes:, :modes], k[1])
    out = jnp.zeros(xf.shape, xf.dtype)
    out = out.at[:, :modes, :modes].set(lo).at[:, -modes:, :modes].set(hi)
    return jnp.fft.irfft2(out, s=(h, w), axes=(1, 2)).astype(x.dtype)


def channel_norm(scale, x):
    x32 = x.astype(jnp.float32)
    var = jnp.mean(jnp.square(x32 - x32.mean((1, 2), keepdims=True)), (1, 2), keepdims=True)
    return (x32 * jax.lax.rsqrt(var + 1e-5)).astype(x.dtype) * scale.astype(x.dtype)


def apply(cfg, params, x):
    g = jnp.linspace(-1.0, 1.0, cfg.grid, dtype=x.dtype)
    gx = jnp.broadcast_to(g[None, :, None, None], x.shape[:3] + (1,))
    gy = jnp.broadcast_to(g[None, None, :, None], x.shape[:3] + (1,))
    y = linear(params["lift"], jnp.concatenate([x, gx, gy], -1))
    for blk in params["blocks"]:
        z = spectral(blk["spec"], y, cfg.modes) + linear(blk["skip"], y)
        y = y + jax.nn.gelu(channel_norm(blk["scale"], z))
    return linear(params["proj2"], jax.nn.gelu(linear(params["proj1"], y)))


def relative_l2(pred, target):
    d = (pred - target).astype(jnp.float32)
    num = jnp.sqrt(jnp.square(d).sum((1, 2, 3)))
    return (num / jnp.sqrt(jnp.square(target.astype(jnp.float32)).sum((1, 2, 3)) + 1e-8)).mean()


def make_step(cfg, tx):
    @jax.jit
    def step(params, opt_state, key, now, nxt, noise_std):
        key, sub = jax.random.split(key)
        now = now.astype(cfg.dtype)
        nxt = nxt.astype(cfg.dtype)

        def loss_fn(p):
            eps = jax.random.normal(sub, now.shape, now.dtype)
            x = now + noise_std * eps
            return relative_l2(x + apply(cfg, p, x), nxt)

        loss, grads = jax.value_and_grad(loss_fn)(params)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, key, loss
    return step


def noise_level(cfg, it):
    if it < cfg.noise_hold:
        return cfg.noise_start
    return np.interp(it, (cfg.noise_hold, cfg.steps), (cfg.noise_start, cfg.noise_end))


def fields(cfg, rng, batch=2):
    x = rng.normal(size=(batch, cfg.grid, cfg.grid, cfg.fields)).astype(np.float32)
    return x, (0.9 * x + 0.1 * np.roll(x, 1, axis=1)).astype(np.float32)


def main(on_call=None):
    cfg = Config()
    tx = optax.adam(optax.cosine_decay_schedule(cfg.lr, cfg.steps))
    key = jax.random.PRNGKey(17)
    params = init(cfg, key)
    opt_state = tx.init(params)
    step = make_step(cfg, tx)
    rng = np.random.default_rng(17)
    for it in range(cfg.steps):
        now, nxt = fields(cfg, rng)
        args = (params, opt_state, key, now, nxt, noise_level(cfg, it))
        if on_call is not None:
            on_call(it, step, *args)
        params, opt_state, key, loss = step(*args)
        print(it, "rel l2 %.4f" % float(loss), "compiled", step._cache_size())


if __name__ == "__main__":
    main()
