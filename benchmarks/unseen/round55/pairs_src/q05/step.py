import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

VOCAB, DIM, HEADS, SEQ, BATCH = 64, 16, 2, 12, 4


def init(key):
    ks = iter(jax.random.split(key, 16))

    def w(*shape):
        return jax.random.normal(next(ks), shape) * shape[0] ** -0.5

    return {
        "embed": w(VOCAB, DIM),
        "pos": w(SEQ, DIM) * 0.1,
        "layer": {
            "ln1": {"scale": jnp.ones(DIM), "bias": jnp.zeros(DIM)},
            "qkv": w(DIM, 3 * DIM),
            "out": w(DIM, DIM),
            "ln2": {"scale": jnp.ones(DIM), "bias": jnp.zeros(DIM)},
            "up": w(DIM, 2 * DIM),
            "down": w(2 * DIM, DIM),
        },
        "ln": {"scale": jnp.ones(DIM), "bias": jnp.zeros(DIM)},
    }


def layer_norm(p, x):
    h = x.astype(jnp.float32)
    h = (h - h.mean(-1, keepdims=True)) * jax.lax.rsqrt(h.var(-1, keepdims=True) + 1e-5)
    return h.astype(x.dtype) * p["scale"] + p["bias"]


def attention(p, x, temperature):
    b, t, d = x.shape
    q, k, v = jnp.split((x @ p["qkv"]).reshape(b, t, 3 * HEADS, d // HEADS), 3, axis=2)
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / temperature
    mask = jnp.tril(jnp.ones((t, t), bool))
    s = jnp.where(mask, s, jnp.finfo(s.dtype).min)
    a = jax.nn.softmax(s, axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", a, v).reshape(b, t, d).astype(x.dtype) @ p["out"]


def forward(params, tokens, temperature):
    p = jax.tree.map(lambda a: a.astype(jnp.bfloat16), params)
    x = p["embed"][tokens] + p["pos"]
    layer = p["layer"]
    x = x + attention(layer, layer_norm(layer["ln1"], x), temperature)
    h = jax.nn.gelu(layer_norm(layer["ln2"], x) @ layer["up"])
    x = x + h @ layer["down"]
    return (layer_norm(p["ln"], x) @ p["embed"].T).astype(jnp.float32)


def loss_fn(params, tokens, temperature):
    logits = forward(params, tokens[:, :-1], temperature)
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


tx = optax.sgd(0.1, momentum=0.9)


@partial(jax.jit, donate_argnums=0)
def train_step(state, tokens):
    loss, grads = jax.value_and_grad(loss_fn)(state["params"], tokens, state["temperature"])
    updates, opt_state = tx.update(grads, state["opt"], state["params"])
    params = optax.apply_updates(state["params"], updates)
    temperature = jnp.maximum(state["temperature"] * 0.98, np.float32(DIM // HEADS) ** 0.5)
    return {
        "params": params,
        "opt": opt_state,
        "temperature": temperature,
        "step": state["step"] + 1,
    }, loss


def main(dump=None, steps=4):
    params = init(jax.random.PRNGKey(0))
    state = {
        "params": params,
        "opt": tx.init(params),
        "temperature": 2.0 * (DIM // HEADS) ** 0.5,
        "step": jnp.zeros((), jnp.int32),
    }
    rng = np.random.default_rng(0)
    for i in range(steps):
        tokens = jnp.asarray(rng.integers(0, VOCAB, (BATCH, SEQ + 1)), jnp.int32)
        if dump:
            text = train_step.lower(state, tokens).compiler_ir("hlo").as_hlo_text()
            with open(f"{dump}.{i}.hlo", "w") as f:
                f.write(text)
        state, loss = train_step(state, tokens)
        print(i, float(loss), train_step._cache_size())


if __name__ == "__main__":
    main(*sys.argv[1:2])
