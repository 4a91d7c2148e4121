"""Physics-informed network for the viscous Burgers equation u_t + u u_x = nu u_xx."""
import sys

import jax
import jax.numpy as jnp
import optax

NU = 0.01 / jnp.pi


def init(key, sizes=(2, 12, 12, 1)):
    params = []
    for k, (m, n) in zip(jax.random.split(key, len(sizes)), zip(sizes[:-1], sizes[1:])):
        w = jax.random.normal(k, (m, n)) * jnp.sqrt(2.0 / (m + n))
        params.append({'w': w, 'b': jnp.zeros(n), 'slope': jnp.ones(())})
    return params


def net(params, x, t):
    h = jnp.stack([x, t])
    for layer in params[:-1]:
        h = jnp.tanh(layer['slope'] * (h @ layer['w'] + layer['b']))
    out = h @ params[-1]['w'] + params[-1]['b']
    return params[-1]['slope'] * out[0]


def residual(params, x, t):
    u = net(params, x, t)
    u_t = jax.grad(net, argnums=2)(params, x, t)
    u_x_fn = lambda x_: jax.grad(net, argnums=1)(params, x_, t)
    u_x, u_xx = jax.jvp(u_x_fn, (x,), (jnp.ones_like(x),))
    return u_t + u * u_x - NU * u_xx


def loss_fn(params, batch):
    r = jax.vmap(residual, (None, 0, 0))(params, batch['x'], batch['t'])
    u0 = jax.vmap(net, (None, 0, None))(params, batch['x0'], 0.0)
    ub = jax.vmap(net, (None, 0, 0))(params, batch['xb'], batch['tb'])
    pde = jnp.mean(r ** 2)
    ic = jnp.mean((u0 + jnp.sin(jnp.pi * batch['x0'])) ** 2)
    bc = jnp.mean(ub ** 2)
    return pde + 10.0 * ic + bc, {'pde': pde, 'ic': ic, 'bc': bc}


schedule = optax.exponential_decay(1e-3, transition_steps=100, decay_rate=0.9)
tx = optax.chain(
    optax.scale_by_adam(b1=0.9, b2=0.99),
    optax.clip_by_global_norm(1.0),
    optax.scale_by_learning_rate(schedule),
)


def train_step(params, opt_state, batch):
    (loss, parts), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss, parts


def make_batch(key, n=32, n0=10, nb=8):
    k = jax.random.split(key, 4)
    return {
        'x': jax.random.uniform(k[0], (n,), minval=-1.0),
        't': jax.random.uniform(k[1], (n,)),
        'x0': jnp.linspace(-1.0, 1.0, n0),
        'xb': jnp.where(jnp.arange(nb) % 2 == 0, -1.0, 1.0),
        'tb': jax.random.uniform(k[2], (nb,)),
    }


def main(path):
    params = init(jax.random.PRNGKey(0))
    opt_state = tx.init(params)
    step = jax.jit(train_step)
    lowered = step.lower(params, opt_state, make_batch(jax.random.PRNGKey(1)))
    with open(path, 'w') as f:
        f.write(lowered.compiler_ir('hlo').as_hlo_module().to_string())
    for i in range(3):
        params, opt_state, loss, _ = step(params, opt_state, make_batch(jax.random.PRNGKey(i)))
        print(i, float(loss))


if __name__ == '__main__':
    main(sys.argv[1])
