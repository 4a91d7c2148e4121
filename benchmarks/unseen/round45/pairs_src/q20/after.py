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
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * scale + bias


def segment_softmax(score, seg):
    top = jax.ops.segment_max(jax.lax.stop_gradient(score), seg, num_segments=NODES)
    num = jnp.exp(score - top[seg])
    den = jax.ops.segment_sum(num, seg, num_segments=NODES)
    return num / (den[seg] + 1e-9)


def message(p, h, edge, src, dst):
    """All heads at once: (edges, heads) scores, (edges, heads, dim) values."""
    h_src, h_dst = h[src], h[dst]
    att_src, att_dst = jnp.split(p["att"], 2, axis=-1)
    score = jnp.einsum("ed,kd->ek", h_src, att_src) + jnp.einsum("ed,kd->ek", h_dst, att_dst)
    alpha = segment_softmax(jax.nn.leaky_relu(score, 0.2), dst)
    value = jnp.einsum("ed,kdo->eko", jnp.concatenate([h_src, edge], axis=-1), p["w"])
    m = jax.ops.segment_sum(alpha[..., None] * value, dst, num_segments=NODES)
    return m.reshape(NODES, -1)


def forward(params, node, edge, src, dst):
    enc, upd, out = params["enc"], params["upd"], params["out"]
    h = jnp.tanh(node @ enc["w"] + enc["b"])
    for _ in range(2):
        m = message(params["msg"], h, edge, src, dst)
        new = jnp.concatenate([h, m], axis=-1) @ upd["w"] + upd["b"]
        h = layer_norm(h + jax.nn.silu(new), upd["scale"], upd["bias"])
    return h @ out["w"] + out["b"]


def loss_fn(params, batch):
    node, edge, src, dst, y, observed = batch
    pred = forward(params, node, edge, src, dst)
    mean, raw = pred[:, 0], pred[:, 1]
    sigma = jax.nn.softplus(raw) + 1e-3
    ll = jax.scipy.stats.norm.logpdf(y, loc=mean, scale=sigma)
    return -jnp.sum(ll * observed) / jnp.sum(observed)


def step(params, m, v, count, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    count = count + 1
    c1, c2 = (1 - b ** count.astype(jnp.float32) for b in (B1, B2))

    def adamw(p, m, v, g):
        m = m + (1 - B1) * (g - m)
        v = v + (1 - B2) * (jnp.square(g) - v)
        direction = (m / c1) / (jnp.sqrt(v / c2) + EPS)
        return p - LR * (direction + WD * p), m, v

    new = jax.tree.map(adamw, params, m, v, grads)
    params, m, v = jax.tree.transpose(jax.tree.structure(params), jax.tree.structure((0, 0, 0)), new)
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
