"""Masked nucleotide model: bidirectional diagonal state-space layers on DNA, lax.scan over the sequence.

Run: JAX_PLATFORMS=cpu python before.py
"""
import os

import jax
import jax.numpy as jnp
import numpy as np
import optax

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "a.hlo")
VOCAB, LENGTH, WIDTH, STATE, LAYERS, BATCH = 6, 20, 10, 4, 1, 4

optimizer = optax.chain(
    optax.clip(1.0),
    optax.scale_by_lion(b1=0.9, b2=0.99),
    optax.scale_by_learning_rate(3e-4),
)


def init_params(rng):
    def normal(*shape, scale=0.2):
        return jnp.asarray(rng.normal(0, scale, shape).astype(np.float32))

    layers = []
    for _ in range(LAYERS):
        layers.append({
            "log_dt": jnp.asarray(rng.uniform(-4, -1, WIDTH).astype(np.float32)),
            "log_a": jnp.log(jnp.tile(jnp.arange(1.0, STATE + 1.0), (WIDTH, 1))),
            "b": normal(WIDTH, STATE),
            "c_fwd": normal(WIDTH, STATE),
            "c_bwd": normal(WIDTH, STATE),
            "skip": jnp.ones(WIDTH),
            "w_glu": normal(WIDTH, 2 * WIDTH),
            "scale": jnp.ones(WIDTH),
        })
    return {"embed": normal(VOCAB, WIDTH), "layers": layers, "bias": jnp.zeros(VOCAB)}


def discretize(p):
    """Zero order hold: the input is constant within one step."""
    a = -jnp.exp(p["log_a"])
    dt = jnp.exp(p["log_dt"])[:, None]
    a_bar = jnp.exp(dt * a)
    b_bar = (a_bar - 1.0) / a * p["b"]
    return a_bar, b_bar


def ssm_scan(a_bar, b_bar, c, u, reverse=False):
    """u: [length, batch, width] -> the same"""

    def body(state, u_t):
        state = a_bar * state + b_bar * u_t[..., None]
        return state, jnp.sum(c * state, axis=-1)

    init = jnp.zeros((u.shape[1], WIDTH, STATE), u.dtype)
    _, y = jax.lax.scan(body, init, u, reverse=reverse)
    return y


def rms_norm(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def layer(p, x):
    h = rms_norm(x, p["scale"])
    a_bar, b_bar = discretize(p)
    y = ssm_scan(a_bar, b_bar, p["c_fwd"], h)
    y = y + ssm_scan(a_bar, b_bar, p["c_bwd"], h, reverse=True)
    y = jax.nn.gelu(y + p["skip"] * h)
    value, gate = jnp.split(y @ p["w_glu"], 2, axis=-1)
    return x + value * jax.nn.sigmoid(gate)


def loss_fn(params, tokens, masked, targets):
    inputs = jnp.where(masked, VOCAB - 1, tokens)
    x = params["embed"][inputs].transpose(1, 0, 2)
    for p in params["layers"]:
        x = layer(p, x)
    logits = x.transpose(1, 0, 2) @ params["embed"].T + params["bias"]
    nll = optax.softmax_cross_entropy_with_integer_labels(logits, targets)
    return jnp.sum(nll * masked) / jnp.maximum(jnp.sum(masked), 1)


def train_step(params, opt_state, tokens, masked, targets):
    loss, grads = jax.value_and_grad(loss_fn)(params, tokens, masked, targets)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def main():
    rng = np.random.default_rng(20)
    params = init_params(rng)
    opt_state = optimizer.init(params)
    step = jax.jit(train_step)
    for i in range(4):
        tokens = rng.integers(0, VOCAB - 1, (BATCH, LENGTH)).astype(np.int32)
        masked = rng.random((BATCH, LENGTH)) < 0.15
        if i == 0:
            module = step.lower(params, opt_state, tokens, masked, tokens).compiler_ir("hlo")
            with open(OUT, "w") as f:
                f.write(module.as_hlo_module().to_string())
        params, opt_state, loss = step(params, opt_state, tokens, masked, tokens)
        print(i, "%.6f" % loss)


if __name__ == "__main__":
    main()
