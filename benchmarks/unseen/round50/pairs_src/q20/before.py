"""Growing neural cellular automata (wound-healing textures), flax + optax."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

CH, GRID, STEPS, BATCH = 8, 10, 5, 2


def perceive(x):
    """Identity, Sobel x, Sobel y and Laplacian per channel."""
    sx = jnp.array([[-1., 0., 1.], [-2., 0., 2.], [-1., 0., 1.]]) / 8.0
    lap = jnp.array([[1., 2., 1.], [2., -12., 2.], [1., 2., 1.]]) / 16.0
    idn = jnp.zeros((3, 3)).at[1, 1].set(1.0)
    bank = jnp.stack([idn, sx, sx.T, lap], -1)[:, :, None, :]
    kernel = jnp.tile(bank, (1, 1, 1, CH))
    return jax.lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", feature_group_count=CH,
        dimension_numbers=("NHWC", "HWIO", "NHWC"))


def alive(x):
    a = nn.max_pool(x[..., 3:4], (3, 3), strides=(1, 1), padding="SAME")
    return a > 0.1


class UpdateRule(nn.Module):
    hidden: int = 16

    @nn.compact
    def __call__(self, y):
        y = nn.relu(nn.Conv(self.hidden, (1, 1))(y))
        return nn.Conv(CH, (1, 1), kernel_init=nn.initializers.normal(0.02))(y)


rule = UpdateRule()


def rollout(params, x, key):
    def body(carry, i):
        x, key = carry
        key, sub = jax.random.split(key)
        before = alive(x)
        dx = rule.apply(params, perceive(x))
        fire = jax.random.bernoulli(sub, 0.5, x.shape[:-1] + (1,))
        x = x + dx * fire.astype(x.dtype)
        x = x * (before & alive(x)).astype(x.dtype)
        return (x, key), jnp.abs(x).mean()

    (x, _), act = jax.lax.scan(body, (x, key), jnp.arange(STEPS))
    return x, act


def loss_fn(params, x, target, key):
    out, act = rollout(params, x, key)
    rgba = out[..., :4]
    overflow = jnp.maximum(jnp.abs(out) - 1.0, 0.0).mean()
    return ((rgba - target) ** 2).mean() + 0.1 * overflow, (out, act)


def normalize():
    def update(g, state, params=None):
        return jax.tree.map(lambda x: x / (jnp.linalg.norm(x) + 1e-8), g), state
    return optax.GradientTransformation(lambda p: optax.EmptyState(), update)


tx = optax.chain(normalize(), optax.lamb(2e-3))


def step(params, opt_state, x, target, key):
    grad = jax.value_and_grad(loss_fn, has_aux=True)
    (loss, (out, act)), g = grad(params, x, target, key)
    upd, opt_state = tx.update(g, opt_state, params)
    return optax.apply_updates(params, upd), opt_state, out, loss, act


def main(path):
    key = jax.random.PRNGKey(5)
    seed = jnp.zeros((BATCH, GRID, GRID, CH)).at[:, 4:6, 4:6, 3:].set(1.0)
    target = jax.random.uniform(key, (BATCH, GRID, GRID, 4))
    params = rule.init(key, perceive(seed))
    opt_state = tx.init(params)
    lowered = jax.jit(step).lower(params, opt_state, seed, target, key)
    with open(path, "w") as f:
        f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    fn = jax.jit(step)
    x = seed
    for i in range(4):
        key, sub = jax.random.split(key)
        params, opt_state, x, loss, act = fn(params, opt_state, x, target, sub)
        print(i, float(loss), float(act[-1]))


if __name__ == "__main__":
    main(sys.argv[1])
