"""Conditional affine-coupling flow for detector-response simulation (density estimation)."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

DIM, COND = 6, 2


class Conditioner(nn.Module):
    width: int
    out: int

    @nn.compact
    def __call__(self, x, cond):
        h = nn.Dense(self.width)(jnp.concatenate([x, cond], axis=-1))
        h = nn.swish(h)
        h = h + nn.Dense(self.width)(nn.LayerNorm()(h))
        return nn.Dense(2 * self.out, kernel_init=nn.initializers.normal(1e-2))(nn.swish(h))


class Coupling(nn.Module):
    flip: bool
    width: int = 16

    @nn.compact
    def __call__(self, x, cond):
        a, b = jnp.split(x, 2, axis=-1)
        if self.flip:
            a, b = b, a
        shift, raw = jnp.split(Conditioner(self.width, DIM // 2)(a, cond), 2, axis=-1)
        log_scale = 1.5 * jnp.tanh(raw / 1.5)
        b = (b + shift) * jnp.exp(log_scale)
        y = jnp.concatenate([b, a] if self.flip else [a, b], axis=-1)
        return y, log_scale.sum(axis=-1)


class Flow(nn.Module):
    depth: int = 3

    @nn.compact
    def __call__(self, x, cond):
        log_det = jnp.zeros(x.shape[0])
        for i in range(self.depth):
            x, ld = nn.remat(Coupling)(flip=i % 2 == 1, name=f"Coupling_{i}")(x, cond)
            log_det = log_det + ld
        log_base = -0.5 * (x ** 2 + jnp.log(2 * jnp.pi)).sum(axis=-1)
        return log_base + log_det


flow = Flow()
tx = optax.adamw(2e-3, b2=0.95, weight_decay=1e-3, mu_dtype=jnp.bfloat16)


def loss_fn(params, batch):
    logp = flow.apply(params, batch['x'], batch['cond'])
    return -(batch['w'] * logp).sum() / batch['w'].sum()


def train_step(params, opt_state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def make_batch(key, n=24):
    k = jax.random.split(key, 3)
    return {'x': jax.random.normal(k[0], (n, DIM)) * 0.7 + 0.2,
            'cond': jax.random.uniform(k[1], (n, COND)),
            'w': jax.random.uniform(k[2], (n,), minval=0.2)}


def main(path):
    batch = make_batch(jax.random.PRNGKey(0))
    params = flow.init(jax.random.PRNGKey(1), batch['x'], batch['cond'])
    opt_state = tx.init(params)
    step = jax.jit(train_step, donate_argnums=(0, 1))
    lowered = step.lower(params, opt_state, batch)
    with open(path, 'w') as f:
        f.write(lowered.compiler_ir('hlo').as_hlo_module().to_string())
    for i in range(3):
        params, opt_state, loss = step(params, opt_state, make_batch(jax.random.PRNGKey(i)))
        print(i, float(loss))


if __name__ == '__main__':
    main(sys.argv[1])
