"""Activity recognition from a sensor window."""
import sys

import jax
import jax.numpy as jnp
from jax import lax

C, T, F, H, K, B = 3, 16, 8, 12, 4, 6


def init(rng):
    ks = jax.random.split(rng, 5)

    def glorot(k, shape, fan):
        return jax.random.normal(k, shape) * fan ** -0.5

    return {
        "stem_kernel": glorot(ks[0], (3, C, F), 3 * C), "stem_bias": jnp.zeros(F),
        "rnn_x": glorot(ks[1], (F, 3 * H), F), "rnn_h": glorot(ks[2], (H, 3 * H), H), "rnn_bias": jnp.zeros(3 * H),
        "cls_kernel": glorot(ks[3], (H, K), H), "cls_bias": jnp.zeros(K),
    }


ORDER = ["stem_kernel", "stem_bias", "rnn_x", "rnn_h", "rnn_bias", "cls_kernel", "cls_bias"]


def stem(p, x):
    y = lax.conv_general_dilated(x, p["stem_kernel"], (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))
    return jax.nn.relu(y + p["stem_bias"])


def recurrent(p, xs):
    pre = xs @ p["rnn_x"] + p["rnn_bias"]

    def cell(h, z):
        rz, rr, rn = jnp.split(h @ p["rnn_h"], 3, axis=-1)
        xz, xr, xn = jnp.split(z, 3, axis=-1)
        u = jax.nn.sigmoid(xz + rz)
        r = jax.nn.sigmoid(xr + rr)
        cand = jnp.tanh(xn + r * rn)
        return (1 - u) * cand + u * h, None

    h, _ = lax.scan(cell, jnp.zeros((xs.shape[0], H)), pre.swapaxes(0, 1))
    return h


def loss_fn(p, x, y):
    logits = recurrent(p, stem(p, x)) @ p["cls_kernel"] + p["cls_bias"]
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1))


@jax.jit
def fit_step(x, y, p, v, m, t):
    loss, g = jax.value_and_grad(loss_fn)(p, x, y)
    t = t + 1
    lr = 3e-3 * jnp.minimum(1.0, t / 10.0)
    p_out, m_out, v_out = [], [], []
    for name in ORDER:
        mk = 0.9 * m[name] + 0.1 * g[name]
        vk = 0.999 * v[name] + 0.001 * jnp.square(g[name])
        step = lr * (mk / (1 - 0.9 ** t)) / (jnp.sqrt(vk / (1 - 0.999 ** t)) + 1e-8)
        p_out.append(p[name] - step)
        m_out.append(mk)
        v_out.append(vk)
    return p_out, m_out, v_out, t, loss


def as_dict(values):
    return dict(zip(ORDER, values))


def batch(rng):
    k1, k2 = jax.random.split(rng)
    y = jax.random.randint(k1, (B,), 0, K)
    wave = jnp.sin(jnp.arange(T)[None, :, None] * (y[:, None, None] + 1) * 0.4)
    return wave + 0.2 * jax.random.normal(k2, (B, T, C)), y


def main():
    rng = jax.random.PRNGKey(30)
    p = init(rng)
    m = {k: jnp.zeros_like(a) for k, a in p.items()}
    v, t = dict(m), jnp.zeros(())
    x, y = batch(rng)
    if len(sys.argv) > 1:
        hlo = fit_step.lower(x, y, p, v, m, t).compiler_ir("hlo")
        open(sys.argv[1], "w").write(hlo.get_hlo_module().to_string())
    for i in range(6):
        p, m, v, t, loss = fit_step(*batch(jax.random.fold_in(rng, i)), p, v, m, t)
        p, m, v = as_dict(p), as_dict(m), as_dict(v)
    print("loss", loss)


if __name__ == "__main__":
    main()
