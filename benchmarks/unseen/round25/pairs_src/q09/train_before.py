"""Character GRU, everything by hand in jax.numpy."""
import jax
import jax.numpy as jnp
import numpy as np

V, E, H, B, T = 30, 16, 24, 8, 10
LR, MOM, WD = 0.1, 0.9, 1e-3


def glorot(key, shape):
    return jax.random.normal(key, shape) * (2.0 / sum(shape)) ** 0.5


def init(key):
    k = jax.random.split(key, 6)
    return {
        "emb": jax.random.normal(k[0], (V, E)) * 0.1,
        "gru": {
            "wx": glorot(k[1], (E, 2 * H)),
            "wh": glorot(k[2], (H, 2 * H)),
            "b": jnp.zeros((2 * H,)),
            "cx": glorot(k[3], (E, H)),
            "ch": glorot(k[4], (H, H)),
            "cb": jnp.zeros((H,)),
        },
        "out": {"w": glorot(k[5], (H, V)), "b": jnp.zeros((V,))},
    }


def gru_cell(p, h, x):
    gates = jax.nn.sigmoid(x @ p["wx"] + h @ p["wh"] + p["b"])
    z, r = jnp.split(gates, 2, axis=-1)
    c = jnp.tanh(x @ p["cx"] + (r * h) @ p["ch"] + p["cb"])
    h = (1.0 - z) * h + z * c
    return h, h


def logits_fn(params, tokens):
    x = params["emb"][tokens]
    h0 = jnp.zeros((tokens.shape[0], H))
    _, hs = jax.lax.scan(lambda h, xt: gru_cell(params["gru"], h, xt), h0, x.swapaxes(0, 1))
    hs = hs.swapaxes(0, 1)
    return hs @ params["out"]["w"] + params["out"]["b"]


def loss_fn(params, tokens, targets):
    lg = logits_fn(params, tokens)
    lp = jax.nn.log_softmax(lg, axis=-1)
    keep = (targets > 0).astype(lp.dtype)
    picked = jnp.take_along_axis(lp, targets[..., None], axis=-1)[..., 0]
    return -(picked * keep).sum() / jnp.maximum(keep.sum(), 1.0)


@jax.jit
def update(params, vel, tokens, targets):
    loss, grads = jax.value_and_grad(loss_fn)(params, tokens, targets)
    grads = jax.tree.map(lambda g, p: g + WD * p, grads, params)
    vel = jax.tree.map(lambda v, g: MOM * v + g, vel, grads)
    params = jax.tree.map(lambda p, v: p - LR * v, params, vel)
    return params, vel, loss


def text(seed):
    r = np.random.default_rng(seed)
    while True:
        start = r.integers(1, V, (B, 1))
        stride = r.integers(1, 4, (B, 1))
        s = (start + stride * np.arange(T + 1)[None]) % V
        yield s[:, :-1].astype(np.int32), s[:, 1:].astype(np.int32)


def main():
    params = init(jax.random.PRNGKey(3))
    vel = jax.tree.map(jnp.zeros_like, params)
    losses = []
    for i, (tok, tgt) in zip(range(5), text(8)):
        params, vel, loss = update(params, vel, tok, tgt)
        losses.append(float(loss))
        print(i, "%.6f" % losses[-1])
    return losses, params


if __name__ == "__main__":
    main()
