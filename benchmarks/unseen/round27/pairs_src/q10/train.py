"""bfloat16 MLP-mixer on toy rasters, hand-rolled momentum SGD with a warmup-cosine schedule."""
import jax
import jax.numpy as jnp
import numpy as np

DTYPE = jnp.bfloat16
PATCHES, CHANNELS, HIDDEN, CLASSES = 9, 16, 24, 5
PEAK_LR, WARMUP, TOTAL = 0.1, 4, 50
MOMENTUM, WEIGHT_DECAY = 0.9, 1e-4


def dense_init(key, n_in, n_out):
    w = jax.random.normal(key, (n_in, n_out), DTYPE) * (n_in ** -0.5)
    return {"w": w, "b": jnp.zeros((n_out,), DTYPE)}


def mlp_init(key, n, hidden):
    k1, k2 = jax.random.split(key)
    return {"up": dense_init(k1, n, hidden), "down": dense_init(k2, hidden, n)}


def init(key, depth=2):
    ks = jax.random.split(key, 2 * depth + 2)
    blocks = [{"token": mlp_init(ks[2 * i], PATCHES, HIDDEN),
               "channel": mlp_init(ks[2 * i + 1], CHANNELS, HIDDEN),
               "scale": jnp.ones((2, CHANNELS), DTYPE)} for i in range(depth)]
    return {"stem": dense_init(ks[-2], 12, CHANNELS), "blocks": blocks,
            "head": dense_init(ks[-1], CHANNELS, CLASSES)}


def dense(p, x):
    return x @ p["w"] + p["b"]


def mlp(p, x):
    return dense(p["down"], jax.nn.gelu(dense(p["up"], x)))


def norm(x, scale):
    x32 = x.astype(jnp.float32)
    x32 = x32 - x32.mean(-1, keepdims=True)
    x32 = x32 * jax.lax.rsqrt(jnp.square(x32).mean(-1, keepdims=True) + 1e-5)
    return x32.astype(x.dtype) * scale


def forward(params, x):
    h = dense(params["stem"], x.astype(DTYPE))
    for blk in params["blocks"]:
        t = norm(h, blk["scale"][0]).swapaxes(1, 2)
        h = h + mlp(blk["token"], t).swapaxes(1, 2)
        h = h + mlp(blk["channel"], norm(h, blk["scale"][1]))
    return dense(params["head"], h.mean(1)).astype(jnp.float32)


def loss_fn(params, x, y):
    logp = jax.nn.log_softmax(forward(params, x))
    return -jnp.take_along_axis(logp, y[:, None], axis=1).mean()


def schedule(step):
    warm = step / WARMUP
    t = jnp.clip((step - WARMUP) / (TOTAL - WARMUP), 0.0, 1.0)
    return PEAK_LR * jnp.where(step < WARMUP, warm, 0.5 * (1 + jnp.cos(jnp.pi * t)))


@jax.jit
def update(params, velocity, step, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    lr = schedule(step)
    velocity = jax.tree.map(lambda v, g, p: MOMENTUM * v + g + WEIGHT_DECAY * p, velocity, grads, params)
    params = jax.tree.map(lambda p, v: p - lr * v, params, velocity)
    return params, velocity, step + 1, loss


def main():
    params = init(jax.random.PRNGKey(0))
    velocity = jax.tree.map(jnp.zeros_like, params)
    step = jnp.zeros((), jnp.int32)
    rs = np.random.RandomState(0)
    for _ in range(6):
        y = rs.randint(0, CLASSES, 8)
        x = rs.randn(8, PATCHES, 12).astype(np.float32) + y[:, None, None] * 0.5
        params, velocity, step, loss = update(params, velocity, step, jnp.asarray(x, jnp.float32), jnp.asarray(y))
        print(int(step), float(loss))


if __name__ == "__main__":
    main()
