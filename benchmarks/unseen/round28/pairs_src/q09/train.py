import jax
import jax.numpy as jnp
import numpy as np

VOCAB, DIM, HID, CTX, BATCH = 40, 16, 32, 5, 24
WARMUP, TOTAL, PEAK = 2, 6, 0.05


def init_params(key, dtype=jnp.bfloat16):
    ks = jax.random.split(key, 5)
    s = lambda k, *shape: (0.1 * jax.random.normal(k, shape)).astype(dtype)
    return {
        "embed": s(ks[0], VOCAB, DIM),
        "conv": {"w": s(ks[1], CTX, DIM, HID), "b": jnp.zeros((HID,), dtype)},
        "mlp": {
            "w1": s(ks[2], HID, 2 * HID),
            "b1": jnp.zeros((2 * HID,), dtype),
            "w2": s(ks[3], 2 * HID, HID),
            "b2": jnp.zeros((HID,), dtype),
        },
        "scale": jnp.ones((HID,), dtype),
        "unembed": s(ks[4], HID, VOCAB),
    }


def rms_norm(x, scale):
    x32 = x.astype(jnp.float32)
    y = x32 * jax.lax.rsqrt(jnp.mean(x32 * x32, -1, keepdims=True) + 1e-6)
    return y.astype(scale.dtype) * scale


def forward(params, tokens):
    e = params["embed"][tokens]
    h = jnp.einsum("bcd,cdh->bh", e, params["conv"]["w"]) + params["conv"]["b"]
    h = jax.nn.silu(h)
    m = params["mlp"]
    y = jax.nn.silu(rms_norm(h, params["scale"]) @ m["w1"] + m["b1"])
    h = h + y @ m["w2"] + m["b2"]
    return rms_norm(h, params["scale"]) @ params["unembed"]


def loss_fn(params, tokens, target):
    logits = forward(params, tokens).astype(jnp.float32)
    logp = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(logp, target[:, None], 1).mean()


@jax.jit
def update(params, velocity, tokens, target, lr):
    loss, grads = jax.value_and_grad(loss_fn)(params, tokens, target)
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, grads)
    params = jax.tree.map(lambda p, v: p - lr * v, params, velocity)
    return params, velocity, loss


def learning_rate(step):
    if step < WARMUP:
        return PEAK * (step + 1) / WARMUP
    frac = (step - WARMUP) / (TOTAL - WARMUP)
    return PEAK * 0.5 * (1 + np.cos(np.pi * np.float32(frac)))


def batches(seed):
    rng = np.random.default_rng(seed)
    stream = np.cumsum(rng.integers(0, 4, 4000)) % VOCAB
    while True:
        at = rng.integers(0, len(stream) - CTX - 1, BATCH)
        yield stream[at[:, None] + np.arange(CTX)].astype(np.int32), stream[at + CTX].astype(np.int32)


def main():
    params = init_params(jax.random.key(4))
    velocity = jax.tree.map(jnp.zeros_like, params)
    data = batches(1)
    for step in range(TOTAL):
        tokens, target = next(data)
        params, velocity, loss = update(params, velocity, tokens, target, learning_rate(step))
        print(step, float(loss))


if __name__ == "__main__":
    main()
