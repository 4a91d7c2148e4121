"""Score-matching model for 2-D wind fields, trained by denoising over a range of noise levels."""
import jax
import jax.numpy as jnp
import numpy as np

C, GRID, BATCH = 8, 12, 3


def conv(x, w, b):
    y = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y + b


def group_norm(x, scale, groups=2):
    b, h, w, c = x.shape
    g = x.reshape(b, h, w, groups, c // groups)
    mean = g.mean((1, 2, 4), keepdims=True)
    var = ((g - mean) ** 2).mean((1, 2, 4), keepdims=True)
    return ((g - mean) / jnp.sqrt(var + 1e-5)).reshape(x.shape) * scale


def init(rng):
    def k(i, o, s=3):
        return jnp.asarray(rng.normal(size=(s, s, i, o)) / np.sqrt(s * s * i), jnp.float32)

    def block():
        return {"a": k(C, C), "ab": jnp.zeros(C), "c": k(C, C), "cb": jnp.zeros(C), "n": jnp.ones(C),
                "t": jnp.asarray(rng.normal(size=(4, C)) * 0.1, jnp.float32)}

    return {"stem": k(2, C), "stem_b": jnp.zeros(C), "blocks": [block(), block(), block()],
            "head": k(C, 2), "head_b": jnp.zeros(2)}


def time_features(sigma):
    l = jnp.log(sigma)[:, None]
    l2 = 2 * l
    return jnp.concatenate([jnp.sin(l), jnp.cos(l), jnp.sin(l2), jnp.cos(l2)], -1)


def score(p, x, sigma):
    feats = time_features(sigma)
    h = conv(x, p["stem"], p["stem_b"])
    for blk in p["blocks"]:
        r = jax.nn.silu(conv(group_norm(h, blk["n"]), blk["a"], blk["ab"]))
        r = r + (feats @ blk["t"])[:, None, None, :]
        h = h + conv(r, blk["c"], blk["cb"])
    return conv(h, p["head"], p["head_b"]) / sigma[:, None, None, None]


def loss_fn(p, x, noise, sigma):
    s = sigma[:, None, None, None]
    residual = s * score(p, x + s * noise, sigma) + noise
    return 0.5 * (residual ** 2).sum((1, 2, 3)).mean()


@jax.jit
def train_step(p, m, x, noise, sigma):
    loss, g = jax.value_and_grad(loss_fn)(p, x, noise, sigma)
    m = jax.tree.map(lambda a, b: 0.95 * a + b, m, g)
    p = jax.tree.map(lambda a, b: a - 1e-4 * b, p, m)
    return p, m, loss


def main():
    rng = np.random.default_rng(4)
    p = init(rng)
    m = jax.tree.map(jnp.zeros_like, p)
    for i in range(2):
        x = rng.normal(size=(BATCH, GRID, GRID, 2)).astype(np.float32)
        noise = rng.normal(size=x.shape).astype(np.float32)
        sigma = np.exp(rng.uniform(-3, 1, BATCH)).astype(np.float32)
        p, m, loss = train_step(p, m, x, noise, sigma)
        print(i, float(loss))


if __name__ == "__main__":
    main()
