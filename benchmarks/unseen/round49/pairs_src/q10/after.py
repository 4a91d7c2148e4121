"""Secondary-structure tagging of short peptides: windowed encoder + linear-chain CRF."""
import sys

import jax
import jax.numpy as jnp
import optax

AA, TAGS, LEN, BATCH = 21, 3, 7, 6


def init(key, emb=6, hid=10):
    k = jax.random.split(key, 5)
    return {
        'emb': 0.3 * jax.random.normal(k[0], (AA, emb)),
        'win': jax.random.normal(k[1], (3 * emb, hid)) / jnp.sqrt(3.0 * emb),
        'win_b': jnp.zeros(hid),
        'emit': jax.random.normal(k[2], (hid, TAGS)) / jnp.sqrt(1.0 * hid),
        'trans': 0.1 * jax.random.normal(k[3], (TAGS, TAGS)),
        'start': 0.1 * jax.random.normal(k[4], (TAGS,)),
    }


def emissions(p, seq):
    """One peptide: seq [L] -> [L, T]."""
    e = jnp.pad(jnp.take(p['emb'], seq, axis=0), ((1, 1), (0, 0)))
    h = jnp.concatenate([e[:-2], e[1:-1], e[2:]], axis=-1)
    h = jax.nn.gelu(h @ p['win'] + p['win_b'])
    return h @ p['emit']


def log_partition(p, emit, mask):
    def forward(alpha, inputs):
        e, m = inputs
        new = jax.nn.logsumexp(alpha[:, None] + p['trans'], axis=0) + e
        return jnp.where(m, new, alpha), None

    alpha, _ = jax.lax.scan(forward, p['start'] + emit[0], (emit[1:], mask[1:]))
    return jax.nn.logsumexp(alpha)


def path_score(p, emit, tags, mask):
    unary = jnp.take_along_axis(emit, tags[:, None], axis=1)[:, 0]
    pair = p['trans'][tags[:-1], tags[1:]]
    return p['start'][tags[0]] + unary[0] + jnp.sum((unary[1:] + pair) * mask[1:])


def nll(p, seq, tags, mask):
    emit = emissions(p, seq)
    return log_partition(p, emit, mask) - path_score(p, emit, tags, mask)


def loss_fn(p, batch):
    mask = batch['mask']
    return jax.vmap(nll, (None, 0, 0, 0))(p, batch['seq'], batch['tags'], mask).sum() / mask.sum()


tx = optax.sgd(0.1, momentum=0.9, nesterov=True)


def train_step(p, opt_state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(p, batch)
    updates, opt_state = tx.update(grads, opt_state, p)
    return optax.apply_updates(p, updates), opt_state, loss


def make_batch(key):
    k = jax.random.split(key, 3)
    lengths = jax.random.randint(k[2], (BATCH,), 3, LEN + 1)
    return {'seq': jax.random.randint(k[0], (BATCH, LEN), 0, AA),
            'tags': jax.random.randint(k[1], (BATCH, LEN), 0, TAGS),
            'mask': jnp.arange(LEN)[None, :] < lengths[:, None]}


def main(path):
    params = init(jax.random.PRNGKey(3))
    opt_state = tx.init(params)
    step = jax.jit(train_step)
    lowered = step.lower(params, opt_state, make_batch(jax.random.PRNGKey(0)))
    with open(path, 'w') as f:
        f.write(lowered.compiler_ir('hlo').as_hlo_module().to_string())
    for i in range(5):
        params, opt_state, loss = step(params, opt_state, make_batch(jax.random.PRNGKey(i)))
        print(i, float(loss))


if __name__ == '__main__':
    main(sys.argv[1])
