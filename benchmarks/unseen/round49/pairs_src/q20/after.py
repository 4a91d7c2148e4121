"""Growing neural cellular automaton, scan over time, gradient normalisation."""
import sys
import jax
import jax.numpy as jnp
import optax

CH, SIZE, STEPS, HIDDEN = 8, 10, 4, 16
FIRE_RATE = 0.5

SOBEL = jnp.array([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]]) / 8.0
IDENT = jnp.zeros((3, 3)).at[1, 1].set(1.0)
FILTERS = jnp.stack([IDENT, SOBEL, SOBEL.T], axis=-1)


def init(key):
    k1, _ = jax.random.split(key)
    return {
        "w1": jax.random.normal(k1, (3 * CH, HIDDEN)) * (3 * CH) ** -0.5,
        "b1": jnp.zeros(HIDDEN),
        "w2": jnp.zeros((HIDDEN, CH)),
    }


def perceive(grid):
    kernel = jnp.tile(FILTERS[:, :, None, :], (1, 1, 1, CH))
    return jax.lax.conv_general_dilated(
        grid, kernel, (1, 1), "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=CH)


def alive(grid):
    alpha = grid[..., 3:4]
    peak = jax.lax.reduce_window(alpha, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 1, 1, 1), "SAME")
    return peak > 0.1


def update(params, grid, key):
    h = jax.nn.relu(perceive(grid) @ params["w1"] + params["b1"])
    delta = h @ params["w2"]
    fire = jax.random.bernoulli(key, FIRE_RATE, grid.shape[:3] + (1,))
    grid = grid + delta * fire.astype(grid.dtype)
    after = alive(grid)
    return grid * after.astype(grid.dtype)


def grow(params, grid, key):
    def body(state, k):
        return update(params, state, k), None

    grid, _ = jax.lax.scan(body, grid, jax.random.split(key, STEPS))
    return grid


def loss_fn(params, grid, target, key):
    final = grow(params, grid, key)
    error = jnp.square(final[..., :4] - target).mean(axis=(1, 2, 3))
    overflow = jnp.abs(final - jnp.clip(final, -2.0, 2.0)).mean()
    return error.mean() + overflow, (final, error)


tx = optax.adam(optax.exponential_decay(2e-3, 1000, 0.3), eps=1e-7)


def step(params, opt_state, grid, target, key):
    (loss, (final, error)), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, grid, target, key)
    norm = optax.global_norm(grads)
    grads = jax.tree_util.tree_map(lambda g: g / (norm + 1e-8), grads)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    # the worst sample of the pool is put back to the seed
    worst = jnp.argmax(error)
    final = final.at[worst].set(seed()[0])
    return params, opt_state, final, loss


def seed(n=1):
    return jnp.zeros((n, SIZE, SIZE, CH)).at[:, SIZE // 2, SIZE // 2, 3:].set(1.0)


if __name__ == "__main__":
    params = init(jax.random.PRNGKey(0))
    opt_state = tx.init(params)
    grid = seed(4)
    target = jax.random.uniform(jax.random.PRNGKey(7), (SIZE, SIZE, 4))
    args = (params, opt_state, grid, target, jax.random.PRNGKey(1))
    with open(sys.argv[1], "w") as f:
        f.write(jax.jit(step).lower(*args).compiler_ir("hlo").as_hlo_module().to_string())
    run = jax.jit(step)
    for i in range(3):
        params, opt_state, grid, loss = run(params, opt_state, grid, target, jax.random.PRNGKey(i + 1))
        print(i, float(loss))
