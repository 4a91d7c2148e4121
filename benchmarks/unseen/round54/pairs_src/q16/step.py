"""Cross-sectional quantile forecaster for daily returns: causal TCN, bfloat16 activations."""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

QUANTILES = (0.1, 0.5, 0.9)


class Config(NamedTuple):
    features: int = 6
    width: int = 16
    dilations: tuple = (1, 2, 4)
    horizon: int = 4
    temp_start: float = 1.0
    temp_end: float = 0.25
    hold: int = 3
    steps: int = 8
    lr: float = 1e-3
    dtype: jnp.dtype = jnp.bfloat16


def init(key, cfg):
    def dense(k, shape):
        fan_in = int(np.prod(shape[:-1]))
        return {"w": jax.random.normal(k, shape) / np.sqrt(fan_in), "b": jnp.zeros(shape[-1])}

    ks = jax.random.split(key, 2 * len(cfg.dilations) + 2)
    params = {"inp": dense(ks[0], (cfg.features, cfg.width)),
              "out": dense(ks[1], (cfg.width, cfg.horizon * len(QUANTILES)))}
    for i in range(len(cfg.dilations)):
        params[f"conv{i}"] = dense(ks[2 + 2 * i], (3, cfg.width, cfg.width))
        params[f"gate{i}"] = dense(ks[3 + 2 * i], (3, cfg.width, cfg.width))
        params[f"norm{i}"] = {"g": jnp.ones(cfg.width), "b": jnp.zeros(cfg.width)}
    return params


def causal_conv(p, x, dilation):
    x = jnp.pad(x, ((0, 0), (2 * dilation, 0), (0, 0)))
    y = jax.lax.conv_general_dilated(x, p["w"], (1,), "VALID", rhs_dilation=(dilation,),
                                     dimension_numbers=("NWC", "WIO", "NWC"))
    return y + p["b"]


def layer_norm(p, x):
    mu = x.mean(-1, keepdims=True)
    var = jnp.square(x - mu).mean(-1, keepdims=True)
    return (x - mu) * jax.lax.rsqrt(var + 1e-5) * p["g"] + p["b"]


def forward(params, x, cfg):
    params = jax.tree.map(lambda a: a.astype(cfg.dtype), params)
    h = x.astype(cfg.dtype) @ params["inp"]["w"] + params["inp"]["b"]
    for i, d in enumerate(cfg.dilations):
        y = layer_norm(params[f"norm{i}"], h)
        y = jnp.tanh(causal_conv(params[f"conv{i}"], y, d)) * jax.nn.sigmoid(causal_conv(params[f"gate{i}"], y, d))
        h = h + y
    out = h[:, -1] @ params["out"]["w"] + params["out"]["b"]
    return out.reshape(x.shape[0], cfg.horizon, len(QUANTILES))


def smooth_pinball(pred, target, temp):
    q = jnp.asarray(QUANTILES, pred.dtype)
    u = target[..., None].astype(pred.dtype) - pred
    s = temp * jax.nn.softplus(-u / temp)
    crossing = jax.nn.relu(pred[..., :-1] - pred[..., 1:])
    return (q * u + s).mean().astype(jnp.float32) + 0.1 * crossing.mean().astype(jnp.float32)


def make_optimizer(cfg):
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(cfg.lr, weight_decay=1e-4))


@partial(jax.jit, static_argnames="cfg")
def train_step(params, opt_state, batch, temp, cfg):
    def loss_fn(p):
        pred = forward(p, batch["x"], cfg)
        return smooth_pinball(pred, batch["y"], temp)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = make_optimizer(cfg).update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def temperature(cfg, step):
    if step < cfg.hold:
        return cfg.temp_start
    return np.interp(step, (cfg.hold, cfg.steps), (cfg.temp_start, cfg.temp_end))


def windows(rng, cfg, n=16, length=20):
    r = 0.01 * rng.standard_normal((n, length + cfg.horizon)).astype(np.float32)
    feats = [np.roll(r, k, axis=1)[:, :length] for k in range(cfg.features)]
    return {"x": np.stack(feats, -1), "y": np.cumsum(r[:, length:], axis=1)}


def main():
    cfg = Config()
    rng = np.random.default_rng(0)
    params = init(jax.random.key(0), cfg)
    opt_state = make_optimizer(cfg).init(params)
    for step in range(cfg.steps):
        params, opt_state, loss = train_step(params, opt_state, windows(rng, cfg), temperature(cfg, step), cfg)
        print(f"step {step} loss {float(loss):.5f}")


if __name__ == "__main__":
    main()
