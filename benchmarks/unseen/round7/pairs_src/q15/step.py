import os, numpy as np, jax, jax.numpy as jnp
flag = os.environ["VARIANT"] == "1"
D, E, S, V, L = 32, 64, 8, 120, 3
rng = np.random.default_rng(0)
r = lambda *s: (rng.standard_normal(s) * 0.2).astype(np.float32)
layers = [dict(norm=np.ones(D, np.float32), win=r(D, 2 * E), conv=r(4, E), dt=r(E, E), bc=r(E, 2 * S), a=-np.exp(r(E, S)), skip=np.ones(E, np.float32), wout=r(E, D)) for _ in range(L)]
emb, fin = r(V, D), np.ones(D, np.float32)
NAMES = dict(norm="scale", win="expand", conv="taps", dt="rate", bc="select", a="decay", skip="direct", wout="contract") if flag else {}
ren = lambda d: {NAMES.get(k, k): v for k, v in d.items()}
params = dict(zip(("stack", "table", "last") if flag else ("layers", "emb", "fin"), ([ren(l) for l in layers], emb, fin)))


def rms(x, g):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * g


def mix(get, x):
    h = rms(x, get("norm"))
    u, z = jnp.split(h @ get("win"), 2, -1)
    up = jnp.pad(u, ((0, 0), (3, 0), (0, 0)))
    T = x.shape[1]
    w = get("conv")
    u = jax.nn.silu(sum(up[:, i:i + T] * w[i] for i in range(4)))
    if flag:
        b, c = jnp.split(u @ get("bc"), 2, -1)
        gate = jax.nn.silu(z)
        dt = jax.nn.softplus(u @ get("dt"))
    else:
        dt = jax.nn.softplus(u @ get("dt"))
        b, c = jnp.split(u @ get("bc"), 2, -1)
        gate = jax.nn.silu(z)
    da = jnp.exp(dt[..., None] * get("a"))
    dbu = dt[..., None] * b[:, :, None, :] * u[..., None]

    def comb(p, q):
        return p[0] * q[0], q[0] * p[1] + q[1]
    _, hs = jax.lax.associative_scan(comb, (da, dbu), axis=1)
    y = (hs * c[:, :, None, :]).sum(-1) + u * get("skip")
    return x + (y * gate) @ get("wout")


def step(p, ids):
    key = list("stack table last".split() if flag else "layers emb fin".split())
    x = p[key[1]][ids]
    for l in p[key[0]]:
        x = mix(lambda n: l[NAMES.get(n, n)], x)
    x = rms(x, p[key[2]])
    logits = x @ p[key[1]].T
    return jax.nn.log_softmax(logits, -1), jnp.argmax(logits[:, -1], -1)


ids = rng.integers(0, V, (2, 12)).astype(np.int32)
low = jax.jit(step).lower(params, ids)
open(os.environ["OUT"], "w").write(low.compiler_ir("hlo").as_hlo_text())
np.savez(os.environ["VALS"], *[np.asarray(o) for o in jax.jit(step)(params, ids)])
