"""Seizure onset from long EEG recordings, linear recurrent units, chunks with a carried state."""
import jax
import jax.numpy as jnp
import numpy as np
import optax

CHANNELS, WIDTH, STATE, CHUNK, LAYERS = 8, 12, 10, 16, 2


def init(key):
    ks = iter(jax.random.split(key, 4 + 8 * LAYERS))
    dense = lambda i, o: jax.random.normal(next(ks), (i, o)) / np.sqrt(i)
    layers = []
    for _ in range(LAYERS):
        r = jnp.sqrt(jax.random.uniform(next(ks), (STATE,), minval=0.5, maxval=0.95))
        layers.append({
            "nu": jnp.log(-jnp.log(r)),
            "phase": jax.random.uniform(next(ks), (STATE,), maxval=0.6),
            "b_re": dense(WIDTH, STATE), "b_im": dense(WIDTH, STATE),
            "c_re": dense(STATE, WIDTH), "c_im": dense(STATE, WIDTH),
            "d": jnp.ones((WIDTH,)), "glu": dense(WIDTH, 2 * WIDTH),
            "scale": jnp.ones((WIDTH,)),
        })
    return {"montage": dense(CHANNELS, WIDTH), "layers": layers, "head": dense(WIDTH, 1), "bias": jnp.zeros((1,))}


def lru(p, x, h0):
    lam = jnp.exp(-jnp.exp(p["nu"]) + 1j * p["phase"])
    gamma = jnp.sqrt(1 - jnp.abs(lam) ** 2)
    u = gamma * (x @ (p["b_re"] + 1j * p["b_im"]))
    if h0 is not None:
        u = u.at[:, 0].add(lam * h0)
    a = jnp.broadcast_to(lam, u.shape)

    def combine(l, r):
        return l[0] * r[0], r[0] * l[1] + r[1]

    _, h = jax.lax.associative_scan(combine, (a, u), axis=1)
    y = (h @ (p["c_re"] + 1j * p["c_im"])).real + p["d"] * x
    return y, h[:, -1]


def network(params, x, state):
    h = x @ params["montage"]
    out = []
    for i, p in enumerate(params["layers"]):
        z = h * jax.lax.rsqrt(jnp.mean(h ** 2, -1, keepdims=True) + 1e-6) * p["scale"]
        y, s = lru(p, z, None if state is None else state[i])
        a, g = jnp.split(jax.nn.gelu(y) @ p["glu"], 2, axis=-1)
        h = h + a * jax.nn.sigmoid(g)
        out.append(s)
    return (h @ params["head"] + params["bias"])[..., 0], out


tx = optax.lion(1e-3, weight_decay=1e-2)


@jax.jit
def step(params, opt_state, x, y, state):
    def loss_fn(p):
        logits, new_state = network(p, x, state)
        return optax.sigmoid_focal_loss(logits, y, alpha=0.8).mean(), new_state

    (loss, new_state), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss, jax.tree.map(jax.lax.stop_gradient, new_state)


def recordings(rng, n, chunks):
    for _ in range(n):
        x = rng.standard_normal((4, chunks * CHUNK, CHANNELS), dtype=np.float32)
        y = (rng.random((4, chunks * CHUNK)) < 0.1).astype(np.float32)
        yield [(x[:, i:i + CHUNK], y[:, i:i + CHUNK]) for i in range(0, chunks * CHUNK, CHUNK)]


def main(on_step=None):
    params = init(jax.random.key(0))
    opt_state = tx.init(params)
    for rec in recordings(np.random.default_rng(0), 2, 3):
        state = None
        for x, y in rec:
            if on_step is not None:
                on_step(step, (params, opt_state, x, y, state))
            params, opt_state, loss, state = step(params, opt_state, x, y, state)
            print(float(loss), step._cache_size())


if __name__ == "__main__":
    main()
