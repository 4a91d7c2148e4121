import sys
import jax
import jax.numpy as jnp
import numpy as np


def normc(key, i, o, gain=1.0):
    w = jax.random.normal(key, (i, o))
    return {'w': gain * w / jnp.linalg.norm(w, axis=0), 'b': jnp.zeros(o)}


def init(key, obs=8, act=4, hidden=32):
    k = jax.random.split(key, 5)
    return {'torso': [normc(k[0], obs, hidden), normc(k[1], hidden, hidden)],
            'pi': normc(k[2], hidden, act, 0.01),
            'vf': [normc(k[3], hidden, hidden), normc(k[4], hidden, 1)]}


@jax.jit
def fc(p, x):
    return x @ p['w'] + p['b']


@jax.jit
def tanh_fc(p, x):
    return jnp.tanh(fc(p, x))


def policy_value(params, obs):
    h = obs
    for p in params['torso']:
        h = tanh_fc(p, h)
    v = fc(params['vf'][1], tanh_fc(params['vf'][0], h))
    return jax.nn.log_softmax(fc(params['pi'], h)), v[:, 0]


def ppo_loss(params, batch, clip=0.2, vf_coef=0.5, ent_coef=0.01):
    logp_all, value = policy_value(params, batch['obs'])
    logp = jnp.take_along_axis(logp_all, batch['act'][:, None], 1)[:, 0]
    ratio = jnp.exp(logp - batch['logp'])
    adv = (batch['adv'] - batch['adv'].mean()) / (batch['adv'].std() + 1e-8)
    surr = jnp.minimum(ratio * adv, jnp.clip(ratio, 1 - clip, 1 + clip) * adv)
    vf = jnp.square(value - batch['ret']).mean()
    ent = -(jnp.exp(logp_all) * logp_all).sum(1).mean()
    return -surr.mean() + vf_coef * vf - ent_coef * ent


def clip_global_norm(tree, limit):
    n = jnp.sqrt(sum(jnp.vdot(x, x) for x in jax.tree.leaves(tree)))
    return jax.tree.map(lambda x: x * jnp.minimum(1.0, limit / (n + 1e-6)), tree)


@jax.jit
def train_step(params, m, v, t, batch):
    loss, g = jax.value_and_grad(ppo_loss)(params, batch)
    g = clip_global_norm(g, 0.5)
    t = t + 1
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
    c = jnp.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t)
    params = jax.tree.map(lambda p, m, v: p - 3e-4 * c * m / (jnp.sqrt(v) + 1e-5), params, m, v)
    return params, m, v, t, loss


def rollout(rng, n=32):
    f = lambda *s: rng.normal(size=s).astype('float32')
    return {'obs': f(n, 8), 'act': rng.integers(0, 4, n), 'logp': -1.386 + 0.1 * f(n),
            'adv': f(n), 'ret': f(n)}


def main():
    params = init(jax.random.PRNGKey(0))
    m = v = jax.tree.map(jnp.zeros_like, params)
    t, rng = jnp.zeros(()), np.random.default_rng(0)
    for it in range(6):
        batch = rollout(rng)
        if it == 0 and len(sys.argv) > 1:
            ir = train_step.lower(params, m, v, t, batch).compiler_ir('hlo')
            open(sys.argv[1], 'w').write(ir.as_hlo_module().to_string())
        params, m, v, t, loss = train_step(params, m, v, t, batch)
        if it % 2:
            print('update', it, 'loss', float(loss))


if __name__ == '__main__':
    main()
