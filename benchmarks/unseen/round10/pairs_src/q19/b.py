import sys
import jax
import jax.numpy as jnp
import numpy as np


def adam(params, m, v, t, g, lr=3e-4):
    t = t + 1
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
    c = jnp.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t)
    params = jax.tree.map(lambda p, m, v: p - lr * c * m / (jnp.sqrt(v) + 1e-5), params, m, v)
    return params, m, v, t


def normc(key, i, o, gain=1.0):
    w = jax.random.normal(key, (i, o))
    return {'w': gain * w / jnp.linalg.norm(w, axis=0), 'b': jnp.zeros(o)}


def init(key, obs=8, act=4, hidden=32):
    k = jax.random.split(key, 5)
    return {'torso': [normc(k[0], obs, hidden), normc(k[1], hidden, hidden)],
            'pi': normc(k[2], hidden, act, 0.01),
            'vf': [normc(k[3], hidden, hidden), normc(k[4], hidden, 1)]}


@jax.jit
def affine(p, x):
    return x @ p['w'] + p['b']


@jax.jit
def hidden_layer(p, x):
    return jnp.tanh(affine(p, x))


def actor_critic(params, obs):
    h = obs
    for p in params['torso']:
        h = hidden_layer(p, h)
    v = affine(params['vf'][1], hidden_layer(params['vf'][0], h))
    return jax.nn.log_softmax(affine(params['pi'], h)), v[:, 0]


def clipped_objective(params, batch, clip=0.2, vf_coef=0.5, ent_coef=0.01):
    log_probs, value = actor_critic(params, batch['obs'])
    logp = jnp.take_along_axis(log_probs, batch['act'][:, None], 1)[:, 0]
    ratio = jnp.exp(logp - batch['logp'])
    adv = (batch['adv'] - batch['adv'].mean()) / (batch['adv'].std() + 1e-8)
    objective = jnp.minimum(ratio * adv, jnp.clip(ratio, 1 - clip, 1 + clip) * adv)
    vf = jnp.square(value - batch['ret']).mean()
    ent = -(jnp.exp(log_probs) * log_probs).sum(1).mean()
    return -objective.mean() + vf_coef * vf - ent_coef * ent


def scale_by_norm(tree, limit):
    n = jnp.sqrt(sum(jnp.vdot(x, x) for x in jax.tree.leaves(tree)))
    return jax.tree.map(lambda x: x * jnp.minimum(1.0, limit / (n + 1e-6)), tree)


@jax.jit
def learner_update(params, m, v, t, batch):
    loss, g = jax.value_and_grad(clipped_objective)(params, batch)
    g = scale_by_norm(g, 0.5)
    with jax.named_scope('optimizer'):
        params, m, v, t = adam(params, m, v, t, g)
    return params, m, v, t, loss


def rollout(rng, n=32):
    f = lambda *s: rng.normal(size=s).astype('float32')
    return {'obs': f(n, 8), 'act': rng.integers(0, 4, n), 'logp': -1.386 + 0.1 * f(n),
            'adv': f(n), 'ret': f(n)}


def main():
    params = init(jax.random.PRNGKey(0))
    m = v = jax.tree.map(jnp.zeros_like, params)
    t, rng = jnp.zeros(()), np.random.default_rng(0)
    act = jax.jit(lambda p, o: actor_critic(p, o)[0])
    print('warm up policy', act(params, np.zeros((1, 8), 'float32')).shape)
    for it in range(6):
        batch = rollout(rng)
        if it == 0 and len(sys.argv) > 1:
            ir = learner_update.lower(params, m, v, t, batch).compiler_ir('hlo')
            open(sys.argv[1], 'w').write(ir.as_hlo_module().to_string())
        params, m, v, t, loss = learner_update(params, m, v, t, batch)
        if it % 2:
            print('update', it, 'loss', float(loss))


if __name__ == '__main__':
    main()
