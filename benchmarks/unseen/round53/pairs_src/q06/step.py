"""SASRec (self-attentive sequential recommendation) in Flax."""
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

ITEMS, LEN, DIM = 200, 16, 16


class Block(nn.Module):

    @nn.compact
    def __call__(self, x, mask):
        h = nn.LayerNorm()(x)
        q = nn.Dense(DIM, use_bias=False)(h)
        k = nn.Dense(DIM, use_bias=False)(h)
        v = nn.Dense(DIM, use_bias=False)(h)
        att = jnp.einsum('btd,bsd->bts', q, k) / DIM ** 0.5
        att = jax.nn.softmax(jnp.where(mask, att, -1e9), axis=-1)
        x = x + jnp.einsum('bts,bsd->btd', att, v)
        h = nn.LayerNorm()(x)
        return x + nn.Dense(DIM, use_bias=False)(nn.relu(nn.Dense(DIM, use_bias=False)(h)))


class SASRec(nn.Module):

    @nn.compact
    def __call__(self, seq, pos, neg):
        table = nn.Embed(ITEMS, DIM)
        x = table(seq) * DIM ** 0.5
        x = x + self.param('pos', nn.initializers.normal(0.02), (LEN, DIM))
        valid = seq > 0
        x = x * valid[..., None]
        causal = jnp.tril(jnp.ones((LEN, LEN), bool))
        mask = causal[None] & valid[:, None, :]
        for _ in range(2):
            x = Block()(x, mask) * valid[..., None]
        x = nn.LayerNorm()(x)
        return (x * table(pos)).sum(-1), (x * table(neg)).sum(-1), valid


model = SASRec()
tx = optax.adam(1e-3, b2=0.98)


def bce(p, n, valid):
    loss = -(jax.nn.log_sigmoid(p) + jax.nn.log_sigmoid(-n))
    return (loss * valid).sum() / jnp.maximum(valid.sum(), 1)


@functools.partial(jax.jit, static_argnames=('log',))
def train_step(params, opt_state, batch, log=False):
    def loss_fn(p):
        s_pos, s_neg, valid = model.apply({'params': p}, *batch)
        return bce(s_pos, s_neg, valid), (s_pos, s_neg, valid)

    (loss, (s_pos, s_neg, valid)), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
    updates, opt_state = tx.update(grads, opt_state, params)
    new_params = optax.apply_updates(params, updates)
    metrics = {'loss': loss}
    if log:
        metrics['auc'] = ((s_pos > s_neg) * valid).sum() / valid.sum()
        metrics['margin'] = ((s_pos - s_neg) * valid).sum() / valid.sum()
    return new_params, opt_state, metrics


def batches(n, seed=0, size=8):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        seq, pos, neg = (rng.integers(1, ITEMS, (size, LEN)).astype(np.int32) for _ in range(3))
        seq[:, : LEN // 4] *= rng.integers(0, 2, (size, 1)).astype(np.int32)
        yield seq, pos, neg


def main(steps=6, log_every=5):
    params = model.init(jax.random.PRNGKey(0), *next(batches(1)))['params']
    opt_state = tx.init(params)
    for step, batch in enumerate(batches(steps, seed=1)):
        log = (step + 1) % log_every == 0
        params, opt_state, metrics = train_step(params, opt_state, batch, log=log)
        print(step, jax.tree.map(float, metrics), train_step._cache_size())


if __name__ == '__main__':
    main()
