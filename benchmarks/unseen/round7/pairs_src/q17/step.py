import os, numpy as np, jax, jax.numpy as jnp
flag = os.environ["VARIANT"] == "1"
rng = np.random.default_rng(0)
r = lambda *s: jnp.asarray(rng.standard_normal(s) * 0.1, jnp.bfloat16)
D, E, F, V = 32, 4, 64, 100
params = dict(emb=r(V, D), blocks=[dict(gate=r(D, E), w1=r(E, D, F), w2=r(E, F, D), q=r(D, D), k=r(D, D), v=r(D, D)) for _ in range(2)])


def moe(b, x):
    n = x.shape[0]
    lg = jnp.einsum("nd,de->ne", x, b["gate"], precision=jax.lax.Precision.HIGHEST if flag else None)
    pr = jax.nn.softmax(lg.astype(jnp.float32), -1)
    top, idx = jax.lax.top_k(pr, 2)
    mask = jax.nn.one_hot(idx, E).sum(1)
    place = jnp.cumsum(mask, 0) * mask - 1
    disp = jax.nn.one_hot(place.astype(jnp.int32), n) * mask[..., None]
    comb = disp * pr[..., None] / top.sum(-1)[:, None, None]
    xe = jnp.einsum("nec,nd->ecd", disp.astype(x.dtype), x)
    h = jax.nn.silu(jnp.einsum("ecd,edf->ecf", xe, b["w1"]))
    ye = jnp.einsum("ecf,efd->ecd", h, b["w2"])
    aux = E * (pr.mean(0) * mask.mean(0)).sum()
    return jnp.einsum("nec,ecd->nd", comb.astype(x.dtype), ye), aux


def loss_fn(p, ids):
    x, total = p["emb"][ids[:-1]], 0.0
    t = x.shape[0]
    for b in p["blocks"]:
        s = (x @ b["q"]) @ (x @ b["k"]).T / D ** 0.5
        s = jnp.where(jnp.tril(jnp.ones((t, t), bool)), s, -1e9)
        x = x + jax.nn.softmax(s.astype(jnp.float32), -1).astype(x.dtype) @ (x @ b["v"])
        y, aux = moe(b, x)
        x, total = x + y, total + aux
    lp = jax.nn.log_softmax((x @ p["emb"].T).astype(jnp.float32))
    return -jnp.take_along_axis(lp, ids[1:, None], 1).mean() + 0.01 * total


def step(p, ids):
    loss, g = jax.value_and_grad(loss_fn)(p, ids)
    return jax.tree.map(lambda a, b: (a - 0.1 * b).astype(a.dtype), p, g), loss


low = jax.jit(step).lower(params, rng.integers(0, V, 13).astype(np.int32))
open(os.environ["OUT"], "w").write(low.compiler_ir("hlo").as_hlo_text())
