"""Message passing over river networks: gauge nodes, reach edges, runoff forecast (JAX)."""
import sys

import jax
import jax.numpy as jnp
import numpy as np

OUT = sys.argv[1]
NODES, EDGES, F_NODE, F_EDGE, DIM, HEADS = 9, 14, 5, 3, 8, 2
LR, B1, B2, EPS, WD = 2e-3, 0.9, 0.999, 1e-8, 1e-3


def init_params(key):
    k = iter(jax.random.split(key, 16))
    g = lambda *s: jax.random.normal(next(k), s) / np.sqrt(s[-2] if len(s) > 1 else s[0])
    return {
        "enc": {"w": g(F_NODE, DIM), "b": jnp.zeros(DIM)},
        "msg": {"w": g(HEADS, DIM + F_EDGE, DIM // HEADS), "att": g(HEADS, 2 * DIM)},
        "upd": {"w": g(2 * DIM, DIM), "b": jnp.zeros(DIM), "scale": jnp.ones(DIM), "bias": jnp.zeros(DIM)},
        "out": {"w": g(DIM, 2), "b": jnp.zeros(2)},
    }


def layer_norm(x, scale, bias):
    mu = jnp.mean(x, axis=-1, keepdims=True)
    var = jnp.mean((x - mu) ** 2, axis=-1, keepdims=True)
    return (x - mu) / jnp.sqrt(var + 1e-5) * scale + bias


def attention_head(w, att, h, edge, src, dst):
    score = jnp.concatenate([h[src], h[dst]], axis=-1) @ att
    score = jnp.where(score > 0, score, 0.2 * score)
    top = jnp.full((NODES,), -jnp.inf).at[dst].max(jax.lax.stop_gradient(score))
    num = jnp.exp(score - top[dst])
    den = jnp.zeros((NODES,)).at[dst].add(num)
    alpha = num / (den[dst] + 1e-9)
    value = jnp.concatenate([h[src], edge], axis=-1) @ w
    return jnp.zeros((NODES, value.shape[-1])).at[dst].add(alpha[:, None] * value)


def forward(params, node, edge, src, dst):
    h = jnp.tanh(node @ params["enc"]["w"] + params["enc"]["b"])
    for _ in range(2):
        heads = [
            attention_head(params["msg"]["w"][i], params["msg"]["att"][i], h, edge, src, dst)
            for i in range(HEADS)
        ]
        m = jnp.concatenate(heads, axis=-1)
        u = params["upd"]
        new = jnp.concatenate([h, m], axis=-1) @ u["w"] + u["b"]
        h = h + new * jax.nn.sigmoid(new)
        h = layer_norm(h, u["scale"], u["bias"])
    return h @ params["out"]["w"] + params["out"]["b"]


def loss_fn(params, batch):
    node, edge, src, dst, y, observed = batch
    pred = forward(params, node, edge, src, dst)
    mean, raw = pred[:, 0], pred[:, 1]
    sigma = jnp.log(1 + jnp.exp(raw)) + 1e-3
    ll = -0.5 * ((y - mean) / sigma) ** 2 - jnp.log(sigma) - 0.5 * jnp.log(2 * jnp.pi)
    return -(ll * observed).sum() / observed.sum()


def step(params, m, v, count, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    count = count + 1
    t = count.astype(jnp.float32)
    m = jax.tree.map(lambda m, g: B1 * m + (1 - B1) * g, m, grads)
    v = jax.tree.map(lambda v, g: B2 * v + (1 - B2) * g * g, v, grads)

    def update(p, m, v):
        mhat = m / (1 - B1**t)
        vhat = v / (1 - B2**t)
        return p - LR * (mhat / (jnp.sqrt(vhat) + EPS) + WD * p)

    params = jax.tree.map(update, params, m, v)
    return params, m, v, count, loss


def make_batch(rng):
    node = rng.standard_normal((NODES, F_NODE)).astype(np.float32)
    edge = rng.standard_normal((EDGES, F_EDGE)).astype(np.float32)
    src = rng.integers(0, NODES, EDGES).astype(np.int32)
    dst = np.concatenate([np.arange(NODES), rng.integers(0, NODES, EDGES - NODES)]).astype(np.int32)
    y = rng.standard_normal(NODES).astype(np.float32)
    observed = (rng.uniform(size=NODES) < 0.8).astype(np.float32)
    return node, edge, src, dst, y, observed


def main():
    rng = np.random.default_rng(0)
    params = init_params(jax.random.PRNGKey(4))
    m = jax.tree.map(jnp.zeros_like, params)
    v = jax.tree.map(jnp.zeros_like, params)
    count = jnp.zeros((), jnp.int32)
    jstep = jax.jit(step)
    with open(OUT, "w") as f:
        lowered = jstep.lower(params, m, v, count, make_batch(rng))
        f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(5):
        params, m, v, count, loss = jstep(params, m, v, count, make_batch(rng))
        total = sum(float(np.abs(np.asarray(p, np.float64)).sum()) for p in jax.tree.leaves(params))
        print(i, float(loss), total)


if __name__ == "__main__":
    main()
