import sys
import jax
import jax.numpy as jnp
import numpy as np
from typing import NamedTuple


class Adam(NamedTuple):
    m: dict
    v: dict
    t: jax.Array


class SpeechGRU:
    """frame classifier over filterbanks"""

    def __init__(self, feats=12, hidden=24, classes=9):
        self.feats, self.hidden, self.classes = feats, hidden, classes

    def init(self, key):
        k = jax.random.split(key, 5)
        d, h = self.feats, self.hidden
        n = lambda k, *s: jax.random.normal(k, s) / np.sqrt(s[0])
        return {
            'h0': jnp.zeros(h),
            'inp': {'w': n(k[0], d, h), 'b': jnp.zeros(h)},
            'gru': {'wx': n(k[1], h, 3 * h), 'wh': n(k[2], h, 3 * h), 'b': jnp.zeros(3 * h)},
            'out': {'w1': n(k[3], h, h), 'b1': jnp.zeros(h), 'w2': n(k[4], h, self.classes)},
        }

    def cell(self, p, h, x):
        gx = x @ p['wx'] + p['b']
        gh = h @ p['wh']
        rx, zx, nx = jnp.split(gx, 3, -1)
        rh, zh, nh = jnp.split(gh, 3, -1)
        z = jax.nn.sigmoid(zx + zh)
        n = jnp.tanh(nx + jax.nn.sigmoid(rx + rh) * nh)
        h = (1 - z) * n + z * h
        return h, h

    def initial_state(self, params, batch):
        return jnp.broadcast_to(jnp.tanh(params['h0']), (batch, self.hidden))

    def apply(self, params, x):
        x = jax.nn.relu(x @ params['inp']['w'] + params['inp']['b'])
        h0 = self.initial_state(params, x.shape[0])
        _, hs = jax.lax.scan(lambda h, u: self.cell(params['gru'], h, u), h0, x.swapaxes(0, 1))
        o = params['out']
        y = jax.nn.relu(hs.swapaxes(0, 1) @ o['w1'] + o['b1'])
        return y @ o['w2']


model = SpeechGRU()


def loss_fn(params, x, y, lengths):
    logp = jax.nn.log_softmax(model.apply(params, x))
    nll = -jnp.take_along_axis(logp, y[..., None], -1)[..., 0]
    mask = jnp.arange(x.shape[1]) < lengths[:, None]
    return jnp.sum(nll * mask) / jnp.sum(mask)


@jax.jit
def train_step(params, opt, x, y, lengths):
    loss, g = jax.value_and_grad(loss_fn)(params, x, y, lengths)
    t = opt.t + 1
    m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, opt.m, g)
    v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, opt.v, g)
    lr = 3e-3 * jnp.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t)
    params = jax.tree.map(lambda p, a, b: p - lr * a / (jnp.sqrt(b) + 1e-8), params, m, v)
    return params, Adam(m, v, t), loss


def main():
    params = model.init(jax.random.key(3))
    zeros = lambda: jax.tree.map(jnp.zeros_like, params)
    opt = Adam(zeros(), zeros(), jnp.zeros((), jnp.int32))
    rng = np.random.default_rng(1)
    for step in range(6):
        x = rng.normal(size=(5, 20, 12)).astype('f')
        y, n = rng.integers(0, 9, (5, 20)), rng.integers(8, 20, 5)
        if step == 0 and sys.argv[1:]:
            ir = train_step.lower(params, opt, x, y, n).compiler_ir('hlo')
            open(sys.argv[1], 'w').write(ir.as_hlo_module().to_string())
        params, opt, loss = train_step(params, opt, x, y, n)
        if step % 3 == 2:
            print('step', step, 'loss', loss)


if __name__ == '__main__':
    main()
