import sys
import jax
import jax.numpy as jnp
import numpy as np


def glorot(key, i, o):
    lim = (6 / (i + o)) ** 0.5
    return jax.random.uniform(key, (i, o), minval=-lim, maxval=lim)


def init_tower(key, ids, feats, emb=8, hidden=24, out=12):
    k = jax.random.split(key, 4)
    return {'table': jax.random.normal(k[0], (ids, emb)) * 0.1,
            'w1': glorot(k[1], emb + feats, hidden), 'b1': jnp.zeros(hidden),
            'w2': glorot(k[2], hidden, hidden), 'b2': jnp.zeros(hidden),
            'w3': glorot(k[3], hidden, out)}


def tower(p, ids, feats):
    x = jnp.concatenate([p['table'][ids], feats], -1)
    x = jax.nn.relu(x @ p['w1'] + p['b1'])
    x = jax.nn.relu(x @ p['w2'] + p['b2'])
    x = x @ p['w3']
    return x / jnp.sqrt(jnp.sum(x * x, -1, keepdims=True) + 1e-6)


def retrieval_loss(user_params, item_params, batch, temperature=0.1):
    v = tower(item_params, batch['item_id'], batch['item_feats'])
    u = tower(user_params, batch['user_id'], batch['user_feats'])
    logits = u @ v.T / temperature
    logits = logits - batch['log_q'][None, :]
    return -jnp.mean(jnp.diagonal(jax.nn.log_softmax(logits, axis=1)))


def adagrad(params, acc, grads, lr):
    acc = jax.tree.map(lambda a, g: a + g * g, acc, grads)
    params = jax.tree.map(lambda p, a, g: p - lr * g * jax.lax.rsqrt(a + 1e-7), params, acc, grads)
    return params, acc


@jax.jit
def train_step(state, batch):
    loss, (gu, gi) = jax.value_and_grad(retrieval_loss, argnums=(0, 1))(
        state['user'], state['item'], batch)
    item, item_acc = adagrad(state['item'], state['item_acc'], gi, 0.02)
    user, user_acc = adagrad(state['user'], state['user_acc'], gu, 0.05)
    return loss, {'user': user, 'item': item, 'user_acc': user_acc, 'item_acc': item_acc}


def interactions(n, rng, bs=16):
    for _ in range(n):
        yield {'user_id': rng.integers(0, 50, bs), 'item_id': rng.integers(0, 80, bs),
               'user_feats': rng.normal(size=(bs, 5)).astype('float32'),
               'item_feats': rng.normal(size=(bs, 7)).astype('float32'),
               'log_q': rng.normal(size=bs).astype('float32') * 0.1}


def main():
    ku, ki = jax.random.split(jax.random.PRNGKey(0))
    user, item = init_tower(ku, 50, 5), init_tower(ki, 80, 7)
    ones = lambda t: jax.tree.map(lambda x: jnp.full_like(x, 0.1), t)
    state = {'user': user, 'item': item, 'user_acc': ones(user), 'item_acc': ones(item)}
    for i, batch in enumerate(interactions(6, np.random.default_rng(3))):
        if i == 0 and len(sys.argv) > 1:
            ir = train_step.lower(state, batch).compiler_ir('hlo')
            open(sys.argv[1], 'w').write(ir.as_hlo_module().to_string())
        loss, state = train_step(state, batch)
        if i % 2 == 0:
            print('batch', i, 'loss', float(loss))


if __name__ == '__main__':
    main()
