import os
import numpy as np
import jax, jax.numpy as jnp

B, OBS, ACT, HID, ATOMS = 16, 12, 3, 24, 11
SUPPORT = jnp.linspace(-5.0, 5.0, ATOMS)
DZ = 10.0 / (ATOMS - 1)


def trunk(p, o):
    h = jax.nn.relu(o @ p["torso_in_kernel"] + p["torso_in_bias"])
    return jax.nn.relu(h @ p["hidden_kernel"] + p["hidden_bias"])


def value_stream(p, h):
    return (h @ p["v_kernel"] + p["v_bias"]).reshape(-1, 1, ATOMS)


def advantage_stream(p, h):
    return (h @ p["adv_kernel"] + p["adv_bias"]).reshape(-1, ACT, ATOMS)


def logits(p, o):
    h = trunk(p, o)
    a = advantage_stream(p, h)
    v = value_stream(p, h)
    return v + a - a.mean(1, keepdims=True)


def project(probs, r, nonterm):
    tz = jnp.clip(r[:, None] + 0.99 * nonterm[:, None] * SUPPORT, -5.0, 5.0)
    b = (tz + 5.0) / DZ
    w = jnp.clip(1.0 - jnp.abs(b[:, :, None] - jnp.arange(ATOMS)[None, None]), 0.0, 1.0)
    return jnp.einsum("bj,bji->bi", probs, w)


def loss_fn(p, target, batch):
    o, a, r, o2, nonterm = batch
    pt = jax.nn.softmax(logits(target, o2))
    q2 = (jax.nn.softmax(logits(p, o2)) * SUPPORT).sum(-1)
    best = q2.argmax(-1)
    pt = jnp.take_along_axis(pt, best[:, None, None], 1)[:, 0]
    m = jax.lax.stop_gradient(project(pt, r, nonterm))
    lp = jax.nn.log_softmax(logits(p, o))
    lp = jnp.take_along_axis(lp, a[:, None, None], 1)[:, 0]
    return -(m * lp).sum(-1).mean()


def adam(p, g, m, v):
    v = 0.999 * v + 0.001 * g * g
    m = 0.9 * m + 0.1 * g
    return p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), m, v


def train_step(params, m, v, target, batch):
    loss, g = jax.value_and_grad(loss_fn)(params, target, batch)
    new_p, new_m, new_v = {}, {}, {}
    for k in params:
        new_p[k], new_m[k], new_v[k] = adam(params[k], g[k], m[k], v[k])
    new_t = {k: 0.995 * target[k] + 0.005 * new_p[k] for k in params}
    return new_p, new_m, new_v, new_t, loss


SHAPES = {"l1_w": (OBS, HID), "l1_b": (HID,), "l2_w": (HID, HID), "l2_b": (HID,), "value_w": (HID, ATOMS),
          "value_b": (ATOMS,), "advantage_w": (HID, ACT * ATOMS), "advantage_b": (ACT * ATOMS,)}
RENAME = {"l1_w": "torso_in_kernel", "l1_b": "torso_in_bias", "l2_w": "hidden_kernel", "l2_b": "hidden_bias", "value_w": "v_kernel", "value_b": "v_bias", "advantage_w": "adv_kernel", "advantage_b": "adv_bias"}


def draw(off, scale):
    return {RENAME.get(k, k): scale * jax.random.normal(jax.random.key(off + i), s) for i, (k, s) in enumerate(SHAPES.items())}


if __name__ == "__main__":
    params, target, m = draw(0, 0.3), draw(50, 0.3), draw(100, 0.01)
    v = jax.tree.map(lambda a: a * a, draw(150, 0.01))
    k = jax.random.split(jax.random.key(9), 5)
    batch = (jax.random.normal(k[0], (B, OBS)), jax.random.randint(k[1], (B,), 0, ACT), jax.random.normal(k[2], (B,)),
             jax.random.normal(k[3], (B, OBS)), (jax.random.uniform(k[4], (B,)) < 0.9).astype(jnp.float32))
    f = jax.jit(train_step)
    args = (params, m, v, target, batch)
    open(os.environ["HLO_OUT"], "w").write(f.lower(*args).compiler_ir("hlo").as_hlo_text())
    out = f(*args)
    out = (out[0], out[3], out[1], out[2], out[4])
    back = {n: o for o, n in RENAME.items()}
    vals = {"%d.%s" % (i, back.get(n, n)): np.asarray(a) for i, d in enumerate(out[:4]) for n, a in d.items()}
    np.savez(os.environ["NPZ_OUT"], loss=np.asarray(out[4]), **vals)
