"""Named-entity style tagging with a dilated-conv + mixer network, bf16 weights."""
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

VOCAB, TAGS, LENGTH, WIDTH, DEPTH = 40, 5, 16, 16, 2
STEPS, WARMUP, PEAK = 6, 2, 3e-2
B1 = 0.9


def lr_table(total, warmup, peak):
    step = np.arange(total)
    warm = peak * (step + 1) / warmup
    cos = peak * 0.5 * (1 + np.cos(np.pi * (step - warmup) / (total - warmup)))
    return jnp.asarray(np.where(step < warmup, warm, cos), jnp.float32)


LR = lr_table(STEPS, WARMUP, PEAK)


class State(NamedTuple):
    step: jax.Array
    params: Any
    mom: Any


def init(key, dtype=jnp.bfloat16):
    ks = iter(jax.random.split(key, 4 + 4 * DEPTH))

    def dense(i, o):
        return {"w": (jax.random.normal(next(ks), (i, o)) / np.sqrt(i)).astype(dtype),
                "b": jnp.zeros((o,), dtype)}

    layers = []
    for _ in range(DEPTH):
        layers.append({
            "scale": jnp.ones((WIDTH,), dtype),
            "conv": (jax.random.normal(next(ks), (3, WIDTH, WIDTH)) / np.sqrt(3 * WIDTH)).astype(dtype),
            "token": dense(LENGTH, LENGTH),
            "up": dense(WIDTH, 2 * WIDTH),
            "down": dense(2 * WIDTH, WIDTH),
        })
    params = {
        "embed": (0.1 * jax.random.normal(next(ks), (VOCAB, WIDTH))).astype(dtype),
        "layers": layers,
        "head": dense(WIDTH, TAGS),
    }
    return State(jnp.zeros((), jnp.int32), params, jax.tree.map(jnp.zeros_like, params))


def linear(p, x):
    return x @ p["w"] + p["b"]


def rms(scale, x):
    h = x.astype(jnp.float32)
    h = h * jax.lax.rsqrt(jnp.mean(h * h, axis=-1, keepdims=True) + 1e-6)
    return h.astype(x.dtype) * scale


def forward(params, tokens, mask):
    x = params["embed"][tokens]
    for i, p in enumerate(params["layers"]):
        h = rms(p["scale"], x) * mask[..., None].astype(x.dtype)
        h = jax.lax.conv_general_dilated(
            h, p["conv"], (1,), "SAME", rhs_dilation=(2 ** i,),
            dimension_numbers=("NWC", "WIO", "NWC"))
        h = jax.nn.silu(h)
        h = h + linear(p["token"], h.swapaxes(1, 2)).swapaxes(1, 2)
        x = x + linear(p["down"], jax.nn.gelu(linear(p["up"], h)))
    return linear(params["head"], x)


def loss_fn(params, batch):
    logits = forward(params, batch["tokens"], batch["mask"]).astype(jnp.float32)
    logp = jax.nn.log_softmax(logits)
    nll = -jnp.take_along_axis(logp, batch["tags"][..., None], axis=-1)[..., 0]
    return (nll * batch["mask"]).sum() / batch["mask"].sum()


@functools.partial(jax.jit, donate_argnums=0)
def train_step(state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(state.params, batch)
    mom = jax.tree.map(lambda m, g: B1 * m + g, state.mom, grads)
    lr = LR[state.step]
    params = jax.tree.map(lambda p, m, g: p - lr * (B1 * m + g), state.params, mom, grads)
    return State(state.step + 1, params, mom), loss


def batches(n, size=4, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        length = rng.integers(LENGTH // 2, LENGTH + 1, (size, 1))
        yield {
            "tokens": rng.integers(0, VOCAB, (size, LENGTH), dtype=np.int32),
            "tags": rng.integers(0, TAGS, (size, LENGTH), dtype=np.int32),
            "mask": (np.arange(LENGTH)[None] < length).astype(np.float32),
        }


def main(on_step=None):
    state = init(jax.random.key(0))
    for i, batch in enumerate(batches(STEPS)):
        if on_step is not None:
            on_step(i, train_step, state, batch)
        state, loss = train_step(state, batch)
        print(i, float(loss))


if __name__ == "__main__":
    main()
