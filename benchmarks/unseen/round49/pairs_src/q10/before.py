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
    e = p['emb'][seq]                                             # [B, L, E]
    pad = jnp.zeros_like(e[:, :1])
    left = jnp.concatenate([pad, e[:, :-1]], axis=1)
    right = jnp.concatenate([e[:, 1:], pad], axis=1)
    h = jnp.concatenate([left, e, right], axis=-1)
    h = jax.nn.gelu(jnp.einsum('ble,eh->blh', h, p['win']) + p['win_b'])
    return jnp.einsum('blh,ht->blt', h, p['emit'])


def log_partition(p, emit, mask):
    alpha = p['start'] + emit[:, 0]                               # [B, T]
    for t in range(1, LEN):
        scores = alpha[:, :, None] + p['trans'][None] + emit[:, t][:, None, :]
        top = jax.lax.stop_gradient(scores.max(axis=1))
        new = top + jnp.log(jnp.exp(scores - top[:, None, :]).sum(axis=1))
        alpha = jnp.where(mask[:, t, None], new, alpha)
    top = jax.lax.stop_gradient(alpha.max(axis=1))
    return top + jnp.log(jnp.exp(alpha - top[:, None]).sum(axis=1))


def path_score(p, emit, tags, mask):
    rows = jnp.arange(tags.shape[0])
    score = p['start'][tags[:, 0]] + emit[rows, 0, tags[:, 0]]
    for t in range(1, LEN):
        step = p['trans'][tags[:, t - 1], tags[:, t]] + emit[rows, t, tags[:, t]]
        score = score + step * mask[:, t]
    return score


def loss_fn(p, batch):
    emit = emissions(p, batch['seq'])
    mask = batch['mask']
    nll = log_partition(p, emit, mask) - path_score(p, emit, batch['tags'], mask)
    return nll.sum() / mask.sum()


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
