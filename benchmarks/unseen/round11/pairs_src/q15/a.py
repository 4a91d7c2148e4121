"""GRU sequence regressor, written by hand in JAX."""
import sys
import jax
import jax.numpy as jnp


def dense(key, i, o):
    return {"w": jax.random.normal(key, (i, o)) / jnp.sqrt(i), "b": jnp.zeros(o)}


def init(key, feat=6, hid=16):
    ks = jax.random.split(key, 8)
    gru = lambda k, i: {"x": dense(k, i, 3 * hid), "h": dense(jax.random.fold_in(k, 1), hid, 3 * hid),
                        "h0": jnp.zeros(hid)}
    return {"l0": gru(ks[0], feat), "l1": gru(ks[1], hid), "mid": dense(ks[2], hid, hid), "out": dense(ks[3], hid, 1)}


def gru_layer(p, xs):
    def cell(h, x):
        xr, xz, xn = jnp.split(x @ p["x"]["w"] + p["x"]["b"], 3, -1)
        hr, hz, hn = jnp.split(h @ p["h"]["w"] + p["h"]["b"], 3, -1)
        r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
        n = jnp.tanh(xn + r * hn)
        h = (1 - z) * n + z * h
        return h, h
    h0 = jnp.zeros((xs.shape[1], p["h0"].shape[0]))
    return jax.lax.scan(cell, h0, xs)[1]


def model(params, xs):
    h = gru_layer(params["l0"], xs)
    h = gru_layer(params["l1"], h)
    h = jax.nn.relu(h @ params["mid"]["w"] + params["mid"]["b"])
    return (h @ params["out"]["w"] + params["out"]["b"])[..., 0]


def loss_fn(params, xs, ys):
    return jnp.mean((model(params, xs) - ys) ** 2)


def adam(params, grads, m, v, t, lr=1e-3, b1=0.9, b2=0.999, eps=1e-8):
    m = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, m, grads)
    v = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, v, grads)
    c1, c2 = 1 - b1 ** t, 1 - b2 ** t
    params = jax.tree.map(lambda p, m, v: p - lr * (m / c1) / (jnp.sqrt(v / c2) + eps), params, m, v)
    return params, m, v


@jax.jit
def step(params, m, v, t, xs, ys):
    loss, grads = jax.value_and_grad(loss_fn)(params, xs, ys)
    params, m, v = adam(params, grads, m, v, t)
    return params, m, v, loss


if __name__ == "__main__":
    key = jax.random.key(0)
    params = init(key)
    m = jax.tree.map(jnp.zeros_like, params)
    v = jax.tree.map(jnp.zeros_like, params)
    xs = jax.random.normal(key, (7, 4, 6))
    ys = xs.sum(-1)
    lowered = step.lower(params, m, v, 1.0, xs, ys)
    with open(sys.argv[1], "w") as f:
        f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(3):
        params, m, v, loss = step(params, m, v, float(i + 1), xs, ys)
    print("loss", loss)
