"""Keyword spotting in bfloat16 with Flax: training on noisy log-mel frames."""
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

MELS, FRAMES, CLASSES = 20, 48, 12


class DSBlock(nn.Module):
    channels: int

    @nn.compact
    def __call__(self, x):
        h = nn.Conv(x.shape[-1], (5,), feature_group_count=x.shape[-1],
                    use_bias=False, param_dtype=jnp.bfloat16)(x)
        h = nn.Conv(self.channels, (1,), use_bias=False, param_dtype=jnp.bfloat16)(h)
        h = nn.GroupNorm(num_groups=4, param_dtype=jnp.bfloat16)(h)
        h = nn.relu(h)
        return h + x if h.shape == x.shape else h


class KWSNet(nn.Module):

    @nn.compact
    def __call__(self, x):
        x = nn.Conv(24, (3,), strides=(2,), param_dtype=jnp.bfloat16)(x)
        for _ in range(2):
            x = DSBlock(24)(x)
        x = x.mean(axis=1)
        return nn.Dense(CLASSES, param_dtype=jnp.bfloat16)(x)


model = KWSNet()
tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))


def add_noise(key, x, std):
    return x + std * jax.random.normal(key, x.shape, x.dtype)


@jax.jit
def train_step(params, opt_state, key, x, y, noise_std):
    def loss_fn(p):
        logits = model.apply({'params': p}, add_noise(key, x, noise_std))
        logits = logits.astype(jnp.float32)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def noise_schedule(step, base=0.1, warm=2, total=10):
    if step < warm:
        return base
    return np.interp(step, [warm, total], [base, 0.02])


def batches(n, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        x = rng.standard_normal((8, FRAMES, MELS)).astype(np.float32)
        yield jnp.asarray(x, jnp.bfloat16), jnp.asarray(rng.integers(0, CLASSES, 8))


def setup():
    key = jax.random.PRNGKey(0)
    params = model.init(key, jnp.zeros((1, FRAMES, MELS), jnp.bfloat16))['params']
    return key, params, tx.init(params)


def main(steps=5):
    key, params, opt_state = setup()
    for step, (x, y) in enumerate(batches(steps)):
        key, sub = jax.random.split(key)
        args = (params, opt_state, sub, x, y, noise_schedule(step))
        params, opt_state, loss = train_step(*args)
        print(step, float(loss), train_step._cache_size())


if __name__ == '__main__':
    main()
