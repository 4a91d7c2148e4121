import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

VOCAB, DIM, HEADS, LAYERS, SEQ, WINDOW = 48, 32, 4, 2, 24, 6


def init_layer(key):
    k = jax.random.split(key, 4)
    s = DIM ** -0.5
    return {
        'qkv': jax.random.normal(k[0], (DIM, 3, HEADS, DIM // HEADS)) * s,
        'proj': jax.random.normal(k[1], (HEADS, DIM // HEADS, DIM)) * s,
        'up': jax.random.normal(k[2], (DIM, 4 * DIM)) * s,
        'down': jax.random.normal(k[3], (4 * DIM, DIM)) * s,
        'scale1': jnp.ones(DIM), 'scale2': jnp.ones(DIM),
    }


def init(key):
    ke, kl = jax.random.split(key)
    return {'emb': jax.random.normal(ke, (VOCAB, DIM)) * 0.05,
            'layers': [init_layer(k) for k in jax.random.split(kl, LAYERS)],
            'scale': jnp.ones(DIM)}


def rms(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def local_mask(n, window):
    i = jnp.arange(n)[:, None]
    j = jnp.arange(n)[None, :]
    return (j <= i) & (i - j < window)


def attention(p, x):
    q, k, v = jnp.einsum('btd,dchk->cbhtk', x, p['qkv'])
    s = jnp.einsum('bhtk,bhsk->bhts', q, k) * (DIM // HEADS) ** -0.5
    s = jnp.where(local_mask(x.shape[1], WINDOW), s, -1e9)
    o = jnp.einsum('bhts,bhsk->bthk', jax.nn.softmax(s, -1), v)
    return jnp.einsum('bthk,hkd->btd', o, p['proj'])


def forward(params, tokens):
    x = params['emb'][tokens]
    for p in params['layers']:
        x = x + attention(p, rms(x, p['scale1']))
        x = x + jax.nn.silu(rms(x, p['scale2']) @ p['up']) @ p['down']
    return rms(x, params['scale']) @ params['emb'].T


def loss_fn(params, tokens):
    logits = forward(params, tokens[:, :-1])
    lp = jax.nn.log_softmax(logits)
    return -jnp.mean(jnp.take_along_axis(lp, tokens[:, 1:, None], -1))


@partial(jax.jit, static_argnames='lr')
def train_step(params, mom, tokens, lr=0.02):
    loss, g = jax.value_and_grad(loss_fn)(params, tokens)
    mom = jax.tree.map(lambda m, d: 0.9 * m + d, mom, g)
    params = jax.tree.map(lambda p, m: p - lr * m, params, mom)
    return params, mom, loss


def main():
    params = init(jax.random.PRNGKey(0))
    mom = jax.tree.map(jnp.zeros_like, params)
    rng = np.random.default_rng(0)
    for i in range(6):
        tokens = jnp.asarray(rng.integers(0, VOCAB, (4, SEQ + 1)))
        if i == 0 and len(sys.argv) > 1:
            ir = train_step.lower(params, mom, tokens).compiler_ir('hlo')
            open(sys.argv[1], 'w').write(ir.as_hlo_module().to_string())
        params, mom, loss = train_step(params, mom, tokens)
        if i % 2 == 1:
            print(i, float(loss))


if __name__ == '__main__':
    main()
