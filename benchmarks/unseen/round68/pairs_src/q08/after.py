"""Allen-Cahn on a periodic line, time slabs weighted by how well the earlier ones are solved."""
import jax
import jax.numpy as jnp
import numpy as np
import optax

WIDTHS = (18, 18, 18, 1)
N_T, N_X, EPS = 6, 8, 1.5


def init(key):
    params, fan_in = [], 7
    for k, w in zip(jax.random.split(key, len(WIDTHS)), WIDTHS):
        params.append({"kernel": jax.nn.initializers.glorot_normal()(k, (fan_in, w)), "bias": jnp.zeros((w,))})
        fan_in = w
    return params


def u(params, t, x):
    modes = jnp.pi * jnp.arange(1, 4) * x
    h = jnp.concatenate([t[None], jnp.cos(modes), jnp.sin(modes)])
    for p in params[:-1]:
        h = jnp.tanh(h @ p["kernel"] + p["bias"])
    return (h @ params[-1]["kernel"] + params[-1]["bias"])[0]


def residual(params, t, x):
    u_t = jax.grad(u, argnums=1)(params, t, x)
    u_xx = jax.grad(jax.grad(u, argnums=2), argnums=2)(params, t, x)
    v = u(params, t, x)
    return u_t - 1e-4 * u_xx + 5.0 * v ** 3 - 5.0 * v


def loss_fn(params, t, x):
    grid = jax.vmap(jax.vmap(residual, (None, None, 0)), (None, 0, None))
    slabs = jnp.mean(grid(params, t, x) ** 2, axis=1)
    weights = jax.lax.stop_gradient(jnp.exp(-EPS * (jnp.cumsum(slabs) - slabs)))
    start = jax.vmap(u, (None, None, 0))(params, jnp.float32(0.0), x) - x ** 2 * jnp.cos(jnp.pi * x)
    return jnp.mean(weights * slabs) + 100.0 * jnp.mean(start ** 2)


def decayed(params):
    return jax.tree.map(lambda p: p.ndim > 1, params)


tx = optax.adamw(optax.exponential_decay(1e-3, 500, 0.9), weight_decay=1e-4, mask=decayed)


@jax.jit
def step(params, opt_state, t, x):
    loss, grads = jax.value_and_grad(loss_fn)(params, t, x)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def main(on_step=None):
    rng = np.random.default_rng(0)
    params = init(jax.random.key(3))
    opt_state = tx.init(params)
    for _ in range(3):
        t = np.sort(rng.random(N_T, dtype=np.float32))
        x = rng.uniform(-1, 1, N_X).astype(np.float32)
        if on_step is not None:
            on_step(step, (params, opt_state, t, x))
        params, opt_state, loss = step(params, opt_state, t, x)
        print(float(loss), step._cache_size())


if __name__ == "__main__":
    main()
