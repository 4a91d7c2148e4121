# kind: jax  mode: dump  pattern: update  env: XLA_FLAGS=--xla_dump_disable_metadata=false
import functools
import jax
import jax.numpy as jnp


def qnet(p, o):
    h = jax.nn.relu(o @ p["w1"] + p["b1"])
    h = jax.nn.relu(h @ p["w2"] + p["b2"])
    a = h @ p["adv"]
    return h @ p["val"] + a - a.mean(-1, keepdims=True)


def huber(x):
    a = jnp.abs(x)
    return jnp.where(a < 1.0, 0.5 * x * x, a - 0.5)


def loss_fn(p, tgt, o, a, r, o2, d, w):
    q = jnp.take_along_axis(qnet(p, o), a[:, None], 1)[:, 0]
    best = qnet(p, o2).argmax(-1) #A
    best = qnet(tgt, o2).argmax(-1) #B
    nxt = jnp.take_along_axis(qnet(tgt, o2), best[:, None], 1)[:, 0]
    td = q - jax.lax.stop_gradient(r + 0.99 * (1 - d) * nxt)
    return (w * huber(td)).mean(), jnp.abs(td)


@functools.partial(jax.jit, donate_argnums=(0, 2, 3))
def update(p, tgt, mu, nu, step, batch):
    (loss, prio), g = jax.value_and_grad(loss_fn, has_aux=True)(p, tgt, *batch)
    step = step + 1
    mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mu, g)
    nu = jax.tree.map(lambda n, g: 0.999 * n + 0.001 * g * g, nu, g)
    c1, c2 = 1 - 0.9 ** step, 1 - 0.999 ** step
    p = jax.tree.map(lambda p, m, n: p - 1e-3 * (m / c1) / (jnp.sqrt(n / c2) + 1e-8), p, mu, nu)
    tgt = jax.tree.map(lambda t, p: 0.995 * t + 0.005 * p, tgt, p)
    return p, tgt, mu, nu, step, loss, prio


def make():
    return {"w1": jnp.full((6, 32), .1), "b1": jnp.zeros(32), "w2": jnp.full((32, 32), .1), "b2": jnp.zeros(32),
            "adv": jnp.full((32, 4), .1), "val": jnp.full((32, 1), .1)}


B = 16
batch = (jnp.ones((B, 6)), jnp.zeros(B, jnp.int32), jnp.ones(B), jnp.ones((B, 6)), jnp.zeros(B), jnp.ones(B))
out = update(make(), make(), jax.tree.map(jnp.zeros_like, make()), jax.tree.map(jnp.zeros_like, make()), jnp.float32(0), batch)
jax.block_until_ready(out)
