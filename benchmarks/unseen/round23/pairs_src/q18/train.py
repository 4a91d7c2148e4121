"""Masked-token pretraining of a small mixer, mixed precision, plain JAX + optax."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

VOCAB, SEQ, DIM, LAYERS = 32, 8, 16, 2
COMPUTE = jnp.bfloat16


def init_params(key):
    ks = iter(jax.random.split(key, 3 + 4 * LAYERS))
    dense = lambda i, o: jax.random.normal(next(ks), (i, o)) / np.sqrt(i)
    layers = []
    for _ in range(LAYERS):
        layers.append({
            "token": {"w1": dense(SEQ, 2 * SEQ), "w2": dense(2 * SEQ, SEQ)},
            "channel": {"w1": dense(DIM, 2 * DIM), "w2": dense(2 * DIM, DIM)},
            "scale": jnp.ones((2, DIM)),
        })
    return {"embed": dense(VOCAB, DIM), "layers": layers, "head": dense(DIM, VOCAB)}


def rms(x, g):
    x32 = x.astype(jnp.float32)
    y = x32 * jax.lax.rsqrt(jnp.mean(x32 * x32, -1, keepdims=True) + 1e-6)
    return (y * g).astype(x.dtype)


def mlp(p, x):
    return jax.nn.gelu(x @ p["w1"].astype(x.dtype)) @ p["w2"].astype(x.dtype)


def forward(params, tokens, gain):
    x = params["embed"][tokens].astype(COMPUTE) * gain
    for lp in params["layers"]:
        t = rms(x, lp["scale"][0]).swapaxes(1, 2)
        x = x + mlp(lp["token"], t).swapaxes(1, 2)
        x = x + mlp(lp["channel"], rms(x, lp["scale"][1]))
    return (x @ params["head"].astype(x.dtype)).astype(jnp.float32)


tx = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.lion(3e-4, b1=0.9, b2=0.98, weight_decay=0.1),
)


def loss_fn(params, tokens, masked, gain):
    inp = jnp.where(masked, 0, tokens)
    logits = forward(params, inp, gain)
    ce = optax.softmax_cross_entropy_with_integer_labels(logits, tokens)
    w = masked.astype(jnp.float32)
    return jnp.sum(ce * w) / jnp.maximum(jnp.sum(w), 1.0)


@partial(jax.jit, donate_argnums=(0,))
def train_step(state, tokens, masked):
    loss, grads = jax.value_and_grad(loss_fn)(
        state["params"], tokens, masked, state["gain"])
    updates, opt = tx.update(grads, state["opt"], state["params"])
    params = optax.apply_updates(state["params"], updates)
    # keep the input scale close to 1 / rms of the embedding table
    rms_now = jnp.sqrt(jnp.mean(jnp.square(params["embed"])))
    gain = 0.9 * state["gain"] + 0.1 / (rms_now + 1e-3)
    new_state = {"params": params, "opt": opt, "gain": gain}
    return new_state, loss


def data(seed, batch=6):
    rng = np.random.default_rng(seed)
    while True:
        start = rng.integers(1, VOCAB, size=(batch, 1))
        step = rng.integers(1, 4, size=(batch, 1))
        toks = 1 + (start + step * np.arange(SEQ)) % (VOCAB - 1)
        yield toks.astype(np.int32), rng.random((batch, SEQ)) < 0.3


def main():
    params = init_params(jax.random.PRNGKey(0))
    state = {"params": params, "opt": tx.init(params), "gain": 1.0}
    it = data(7)
    for step in range(5):
        state, loss = train_step(state, *next(it))
        print(f"step {step} loss {float(loss):.4f} gain {float(state['gain']):.3f}")


if __name__ == "__main__":
    main()
