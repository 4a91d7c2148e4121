"""Dilated convolutional model of chromatin profiles from one-hot DNA."""
import jax
import jax.numpy as jnp
import numpy as np
import optax

LENGTH, TRACKS, WIDTH, LAYERS, BATCH, BIN = 64, 5, 16, 2, 4, 8
BASES = "ACGT"


def encode(sequence):
    codes = np.frombuffer(sequence.encode(), dtype=np.uint8)
    hot = (codes[:, None] == np.frombuffer(BASES.encode(), dtype=np.uint8)).astype(np.int8)
    unknown = hot.sum(1) == 0
    if unknown.any():
        hot = np.where(unknown[:, None], np.float32(0.25), hot)
    return hot


def genome(rng, size, gap):
    bases = rng.choice(list(BASES), size)
    start = int(rng.integers(0, size - gap))
    bases[start:start + gap] = "N"
    return "".join(bases)


def loader(rng, contig, steps):
    for _ in range(steps):
        starts = rng.integers(0, len(contig) - LENGTH, BATCH)
        x = np.stack([encode(contig[s:s + LENGTH]) for s in starts])
        y = rng.poisson(1.5, (BATCH, LENGTH // BIN, TRACKS)).astype(np.float32)
        yield x, y


def conv_init(key, k, cin, cout):
    return {"w": jax.random.normal(key, (k, cin, cout)) * np.sqrt(2.0 / (k * cin)), "b": jnp.zeros((cout,))}


def init(key):
    keys = jax.random.split(key, LAYERS + 2)
    return {
        "stem": conv_init(keys[0], 9, 4, WIDTH),
        "blocks": [
            {"conv": conv_init(k, 3, WIDTH, WIDTH), "scale": jnp.ones((WIDTH,)), "shift": jnp.zeros((WIDTH,))}
            for k in keys[1:-1]
        ],
        "head": conv_init(keys[-1], 1, WIDTH, TRACKS),
    }


def conv(p, x, dilation=1):
    y = jax.lax.conv_general_dilated(
        x, p["w"], (1,), "SAME", rhs_dilation=(dilation,), dimension_numbers=("NWC", "WIO", "NWC"))
    return y + p["b"]


def forward(params, x):
    x = x.astype(jnp.float32)
    h = jax.nn.gelu(conv(params["stem"], x))
    for i, blk in enumerate(params["blocks"]):
        mu = h.mean(-1, keepdims=True)
        z = (h - mu) * jax.lax.rsqrt(h.var(-1, keepdims=True) + 1e-5) * blk["scale"] + blk["shift"]
        h = h + jax.nn.gelu(conv(blk["conv"], z, 2 ** (i + 1)))
    h = h.reshape(h.shape[0], LENGTH // BIN, BIN, WIDTH).mean(2)
    return jax.nn.softplus(conv(params["head"], h))


def loss_fn(params, x, y):
    rate = forward(params, x)
    return (rate - y * jnp.log(rate + 1e-6)).mean()


tx = optax.adamw(optax.warmup_cosine_decay_schedule(1e-4, 2e-3, 5, 50), weight_decay=1e-3)


@jax.jit
def update(params, opt_state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def main():
    rng = np.random.default_rng(4)
    params = init(jax.random.key(1))
    opt_state = tx.init(params)
    for i, (x, y) in enumerate(loader(rng, genome(rng, 2000, 120), 10)):
        params, opt_state, loss = update(params, opt_state, x, y)
        print(i, round(float(loss), 4), update._cache_size(), flush=True)


if __name__ == "__main__":
    main()
