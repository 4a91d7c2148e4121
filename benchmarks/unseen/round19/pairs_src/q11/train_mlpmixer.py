"""MLP-mixer on small patches, bf16 weights, momentum SGD with cosine schedule."""
import sys

import jax
import jax.numpy as jnp

P, C, DEPTH, CLS = 16, 24, 2, 5
DT = jnp.bfloat16


def init(key):
    def lin(i, o):
        nonlocal key
        key, k = jax.random.split(key)
        return dict(w=(jax.random.normal(k, (i, o)) / i ** 0.5).astype(DT), b=jnp.zeros((o,), DT))

    return dict(
        stem=lin(12, C),
        blocks=[dict(t1=lin(P, 32), t2=lin(32, P), c1=lin(C, 48), c2=lin(48, C)) for _ in range(DEPTH)],
        head=lin(C, CLS),
    )


def fc(p, x):
    return x @ p["w"] + p["b"]


def norm(x):
    mu = x.mean(-1, keepdims=True)
    return (x - mu) * jax.lax.rsqrt(((x - mu) ** 2).mean(-1, keepdims=True) + 1e-5)


def forward(params, x):
    h = fc(params["stem"], x)
    for b in params["blocks"]:
        t = jnp.swapaxes(norm(h), 1, 2)
        h = h + jnp.swapaxes(fc(b["t2"], jax.nn.gelu(fc(b["t1"], t))), 1, 2)
        h = h + fc(b["c2"], jax.nn.gelu(fc(b["c1"], norm(h))))
    return fc(params["head"], h.mean(1))


def loss_fn(params, x, y):
    lp = jax.nn.log_softmax(forward(params, x).astype(jnp.float32))
    return -jnp.take_along_axis(lp, y[:, None], 1).mean()


@jax.jit
def update(params, mom, lr, x, y):
    loss, g = jax.value_and_grad(loss_fn)(params, x, y)
    mom = jax.tree.map(lambda m, d: 0.9 * m + lr * d, mom, g)
    params = jax.tree.map(lambda p, m: (p - m).astype(p.dtype), params, mom)
    return params, mom, loss


def main():
    key = jax.random.key(2)
    params = init(key)
    if "--f32-momentum" in sys.argv:
        mom = jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.float32), params)
    else:
        mom = jax.tree.map(jnp.zeros_like, params)
    steps = 6
    for i in range(steps):
        key, a, b = jax.random.split(key, 3)
        x = jax.random.normal(a, (8, P, 12), DT)
        y = jax.random.randint(b, (8,), 0, CLS)
        lr = jnp.float32(0.05) * 0.5 * (1 + jnp.cos(jnp.pi * i / steps))
        params, mom, loss = update(params, mom, lr, x, y)
    print(float(loss))


if __name__ == "__main__":
    main()
