"""python jax_pairs.py NAME ...  -> ../pairs/NAME_{a,b}.hlo (JAX lowering, before optimization)."""
import os
import pathlib
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + \
    " --xla_force_host_platform_device_count=8"

import numpy as np
import jax
import jax.numpy as jnp
from jax import lax

OUT = pathlib.Path(__file__).resolve().parent.parent / "pairs"
NAME, A = None, True


def dump(f, *args, **jit):
    text = jax.jit(f, **jit).lower(*args).compiler_ir("hlo").as_hlo_text()
    (OUT / f"{NAME}_{'a' if A else 'b'}.hlo").write_text(text)


def spec(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def mlp_specs(sizes):
    return [{"w": spec(i, o), "b": spec(o)} for i, o in zip(sizes, sizes[1:])]


def mlp(params, x, act=jax.nn.gelu):
    for i, p in enumerate(params):
        x = x @ p["w"] + p["b"]
        if i + 1 < len(params):
            x = act(x)
    return x


def sgd_step(params, velocity, x, y, clip=None):
    def loss_fn(p):
        logp = jax.nn.log_softmax(mlp(p, x))
        return -jnp.mean(jnp.take_along_axis(logp, y[:, None], axis=1))

    loss, grads = jax.value_and_grad(loss_fn)(params)
    if clip:
        norm = jnp.sqrt(sum(jnp.sum(g ** 2) for g in jax.tree.leaves(grads)))
        grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, clip / (norm + 1e-6)), grads)
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, grads)
    params = jax.tree.map(lambda p, v: p - 0.05 * v, params, velocity)
    return params, velocity, loss


def q02():
    p = mlp_specs((16, 32, 32, 6))
    dump(sgd_step, p, p, spec(24, 16), spec(24, dtype=jnp.int32),
         donate_argnums=(0, 1) if A else (0,))


def q04():
    """Conv net with a hand-written threshold unit, gradient step."""
    def loss_fn(w, x, y):
        h = lax.conv_general_dilated(x, w["c1"], (1, 1), "SAME",
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"))
        h = jnp.where(h > 0.1 if A else h >= 0.1, h, 0.01 * h)
        h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        h = lax.conv_general_dilated(h, w["c2"], (1, 1), "SAME",
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"))
        out = jnp.mean(jnp.maximum(h, 0), (1, 2)) @ w["head"]
        return jnp.mean((out - y) ** 2)

    w = {"c1": spec(3, 3, 3, 8), "c2": spec(3, 3, 8, 16), "head": spec(16, 4)}
    def step(w, x, y):
        loss, g = jax.value_and_grad(loss_fn)(w, x, y)
        return jax.tree.map(lambda p, q: p - 0.01 * q, w, g), loss
    dump(step, w, spec(4, 16, 16, 3), spec(4, 4))


def q06():
    """Sinkhorn matching of two embedded point sets inside a fori_loop."""
    def f(params, a, b):
        x, y = mlp(params, a), mlp(params, b)
        cost = jnp.sum((x[:, None] - y[None]) ** 2, -1)
        logk = -cost / 0.1
        def body(_, uv):
            u, v = uv
            u = -jax.nn.logsumexp(logk + v[None], axis=1)
            v = -jax.nn.logsumexp(logk + u[:, None], axis=0)
            return u, v
        u, v = lax.fori_loop(0, 20 if A else 24, body, (jnp.zeros(32), jnp.zeros(32)))
        plan = jnp.exp(logk + u[:, None] + v[None])
        return jnp.sum(plan * cost), plan
    dump(f, mlp_specs((3, 32, 8)), spec(32, 3), spec(32, 3))


def q08():
    """Two-dimensional mesh: the gradient is summed over one of its axes."""
    from jax.sharding import Mesh, PartitionSpec as P
    shard_map = getattr(jax, "shard_map", None)
    if shard_map is None:
        from jax.experimental.shard_map import shard_map
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("data", "model"))
    def step(w1, w2, x, y):
        def loss_fn(ws):
            h = jax.nn.relu(x @ ws[0])
            part = h @ ws[1]
            return jnp.mean((part - y) ** 2)
        loss, g = jax.value_and_grad(loss_fn)((w1, w2))
        g = [lax.psum(t, "data" if A else "model") for t in g]
        return w1 - 0.1 * g[0], w2 - 0.1 * g[1], loss[None, None]
    kw = dict(mesh=mesh, in_specs=(P(None, "model"), P("model", None), P("data"), P("data")),
              out_specs=(P(None, "model"), P("model", None), P("data", "model")))
    try:
        g = shard_map(step, check_vma=False, **kw)
    except TypeError:
        g = shard_map(step, check_rep=False, **kw)
    dump(g, spec(16, 64), spec(64, 8), spec(32, 16), spec(32, 8))


def attention_block(w, x, mask, logits_dtype=jnp.float32, precision=None):
    b, t, d = x.shape
    q, k, v = (jnp.einsum("btd,dhe->bthe", x, w[n]) for n in ("q", "k", "v"))
    s = jnp.einsum("bqhe,bkhe->bhqk", q, k, preferred_element_type=logits_dtype,
                   precision=precision)
    s = jnp.where(mask, s / np.sqrt(q.shape[-1]), -1e9)
    p = jax.nn.softmax(s, axis=-1).astype(v.dtype)
    y = jnp.einsum("bhqk,bkhe->bqhe", p, v)
    x = x + jnp.einsum("bqhe,hed->bqd", y, w["o"])
    h = x @ w["up"]
    return x + (h * jax.nn.sigmoid(1.702 * h)) @ w["down"]


def block_specs(dtype, d=32, h=4):
    e = d // h
    return dict(q=spec(d, h, e, dtype=dtype), k=spec(d, h, e, dtype=dtype),
                v=spec(d, h, e, dtype=dtype), o=spec(h, e, d, dtype=dtype),
                up=spec(d, 4 * d, dtype=dtype), down=spec(4 * d, d, dtype=dtype))


def q10():
    dt = jnp.bfloat16
    def f(w, x, mask):
        return attention_block(w, x, mask, jnp.float32 if A else jnp.bfloat16)
    dump(f, block_specs(dt), spec(2, 16, 32, dtype=dt), spec(1, 1, 16, 16, dtype=jnp.bool_))


def q12():
    """The same value-and-policy network; another order of arguments and of statements."""
    t = dict(w1=spec(12, 32), b1=spec(32), wp=spec(32, 5), wv=spec(32, 1))
    def first(w1, b1, wp, wv, obs, act):
        h = jnp.tanh(obs @ w1 + b1)
        logp = jax.nn.log_softmax(h @ wp)
        chosen = jnp.take_along_axis(logp, act[:, None], axis=1)[:, 0]
        value = (h @ wv)[:, 0]
        entropy = -jnp.sum(jnp.exp(logp) * logp, axis=-1)
        return chosen, value, entropy
    def second(actions, states, value_w, policy_w, bias, trunk_w):
        trunk = jnp.tanh(states @ trunk_w + bias)
        v = (trunk @ value_w)[:, 0]
        lp = jax.nn.log_softmax(trunk @ policy_w)
        ent = -jnp.sum(jnp.exp(lp) * lp, axis=-1)
        picked = jnp.take_along_axis(lp, actions[:, None], axis=1)[:, 0]
        return picked, v, ent
    obs, act = spec(20, 12), spec(20, dtype=jnp.int32)
    if A:
        dump(first, t["w1"], t["b1"], t["wp"], t["wv"], obs, act)
    else:
        dump(second, act, obs, t["wv"], t["wp"], t["b1"], t["w1"])


def q14():
    """One argument of the step arrives in another memory order.

    JAX hands the layouts to the compiler beside the module; here they are written into the
    module's entry (header and parameter), as a compiler sees them."""
    def f(table, ids, w):
        h = jnp.take(table, ids, axis=0)
        h = jnp.mean(h, axis=1)
        return jax.nn.log_softmax(jax.nn.relu(h @ w) @ w.T)
    text = jax.jit(f).lower(spec(200, 32), spec(8, 10, dtype=jnp.int32),
                            spec(32, 64)).compiler_ir("hlo").as_hlo_text()
    if not A:
        head, entry = text.split("\nENTRY ")
        first, rest = head.split("\n", 1)
        entry = "\n".join(l.replace("f32[200,32]{1,0}", "f32[200,32]{0,1}")
                          if " parameter(" in l else l for l in entry.split("\n"))
        text = "\n".join([first.replace("f32[200,32]{1,0}", "f32[200,32]{0,1}"), rest])
        text += "\nENTRY " + entry
    (OUT / f"{NAME}_{'a' if A else 'b'}.hlo").write_text(text)


def q18():
    """Decoding step of one attention layer with a cache."""
    def f(w, cache_k, cache_v, x, pos):
        q, k, v = (x @ w[n] for n in ("q", "k", "v"))
        cache_k = lax.dynamic_update_slice(cache_k, k[:, None], (0, pos, 0))
        cache_v = lax.dynamic_update_slice(cache_v, v[:, None], (0, pos, 0))
        s = jnp.einsum("bd,btd->bt", q, cache_k) / np.sqrt(q.shape[-1])
        live = jnp.arange(cache_k.shape[1]) <= (pos if A else pos + 1)
        p = jax.nn.softmax(jnp.where(live[None], s, -1e9))
        y = jnp.einsum("bt,btd->bd", p, cache_v)
        return x + y @ w["o"], cache_k, cache_v
    d = 32
    dump(f, {n: spec(d, d) for n in "qkvo"}, spec(4, 48, d), spec(4, 48, d), spec(4, d),
         spec(dtype=jnp.int32))


def q20():
    def f(w, x, mask):
        def loss(w):
            return jnp.mean(attention_block(
                w, x, mask, precision=None if A else lax.Precision.HIGHEST) ** 2)
        return jax.value_and_grad(loss)(w)
    dump(f, block_specs(jnp.float32), spec(2, 16, 32), spec(1, 1, 16, 16, dtype=jnp.bool_))


def q19():
    """Loss, latent and divergence of a variational autoencoder, written twice."""
    def first(p, x, eps):
        def loss_fn(p):
            h = jnp.tanh(x @ p["enc"])
            m, v = h @ p["mu"], h @ p["lv"]
            z = m + jnp.exp(v * 0.5) * eps
            rec = jax.nn.sigmoid(z @ p["dec"])
            err = jnp.sum((rec - x) ** 2, -1)
            kl = -0.5 * jnp.sum(1 + v - m ** 2 - jnp.exp(v), -1)
            return jnp.mean(err + kl), z, kl
        return loss_fn(p)

    def second(noise, images, weights):
        def objective(decode, logvar_w, mean_w, encode):
            hidden = jnp.tanh(images @ encode)
            logvar = hidden @ logvar_w
            std = jnp.exp(logvar * 0.5)
            mean = hidden @ mean_w
            square, var = mean ** 2, jnp.exp(logvar)
            divergence = -0.5 * jnp.sum(1 + logvar - square - var, -1)
            latent = mean + std * noise
            out = jax.nn.sigmoid(latent @ decode)
            distance = jnp.sum((out - images) ** 2, -1)
            return jnp.mean(distance + divergence), latent, divergence
        return objective(*weights)

    enc, mu, lv, dec = spec(36, 24), spec(24, 8), spec(24, 8), spec(8, 36)
    if A:
        dump(first, dict(enc=enc, mu=mu, lv=lv, dec=dec), spec(16, 36), spec(16, 8))
    else:
        dump(second, spec(16, 8), spec(16, 36), [dec, lv, mu, enc])


for NAME in sys.argv[1:]:
    for A in (True, False):
        globals()[NAME]()
