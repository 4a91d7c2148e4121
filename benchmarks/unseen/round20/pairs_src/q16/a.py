"""Neural ODE-ish pendulum fit with lax.scan; Adam by hand."""
import sys
from functools import partial
import jax
import jax.numpy as jnp
import numpy as np


def field(p, y):
    h = jnp.tanh(y @ p["w0"] + p["b0"])
    return h @ p["w1"] + p["b1"]


def rollout(p, y0, n=20, dt=0.05):
    def body(y, _):
        k1 = field(p, y)
        k2 = field(p, y + 0.5 * dt * k1)
        y = y + dt * k2
        return y, y
    _, ys = jax.lax.scan(body, y0, None, length=n)
    return ys


def loss_fn(p, y0, traj):
    return jnp.mean((rollout(p, y0) - traj) ** 2)


@jax.jit
def step(p, m, v, t, y0, traj):
    loss, g = jax.value_and_grad(loss_fn)(p, y0, traj)
    m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
    v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
    t = t + 1
    p = jax.tree.map(lambda q, a, b: q - 1e-3 * (a / (1 - 0.9 ** t)) / (jnp.sqrt(b / (1 - 0.999 ** t)) + 1e-8), p, m, v)
    return p, m, v, t, loss


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    f32 = lambda *s: jnp.asarray(rng.normal(size=s) * 0.3, jnp.float32)
    p = dict(w0=f32(2, 32), b0=f32(32), w1=f32(32, 2), b1=f32(2))
    m = jax.tree.map(jnp.zeros_like, p)
    v = jax.tree.map(jnp.zeros_like, p)
    t = jnp.float32(0)
    y0, traj = f32(16, 2), f32(20, 16, 2)
    if len(sys.argv) > 1:
        open(sys.argv[1], "w").write(step.lower(p, m, v, t, y0, traj).compiler_ir("hlo").as_hlo_text())
    for _ in range(3):
        p, m, v, t, loss = step(p, m, v, t, y0, traj)
    print(loss)
