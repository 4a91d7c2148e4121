import dataclasses
import sys
import jax
import jax.numpy as jnp
import numpy as np


def dense(key, i, o):
    return {'w': jax.random.normal(key, (i, o)) * (2 / i) ** 0.5, 'b': jnp.zeros(o)}


def linear(p, x):
    return x @ p['w'] + p['b']


def layer_norm(p, x, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return (x - mu) / jnp.sqrt(var + eps) * p['g'] + p['b']


def init_mixer(key, patches, dim, depth, classes, patch_dim):
    ks = iter(jax.random.split(key, 4 * depth + 2))
    ln = lambda: {'g': jnp.ones(dim), 'b': jnp.zeros(dim)}
    return {
        'stem': dense(next(ks), patch_dim, dim),
        'blocks': [{'ln1': ln(), 'ln2': ln(),
                    'tok1': dense(next(ks), patches, 2 * patches), 'tok2': dense(next(ks), 2 * patches, patches),
                    'ch1': dense(next(ks), dim, 2 * dim), 'ch2': dense(next(ks), 2 * dim, dim)}
                   for _ in range(depth)],
        'head': dense(next(ks), dim, classes),
    }


def mixer(params, img, patch=4):
    b, h, w, c = img.shape
    x = img.reshape(b, h // patch, patch, w // patch, patch, c)
    x = x.transpose(0, 1, 3, 2, 4, 5).reshape(b, -1, patch * patch * c)
    x = linear(params['stem'], x)
    for p in params['blocks']:
        y = layer_norm(p['ln1'], x).swapaxes(1, 2)
        x = x + linear(p['tok2'], jax.nn.gelu(linear(p['tok1'], y))).swapaxes(1, 2)
        y = layer_norm(p['ln2'], x)
        x = x + linear(p['ch2'], jax.nn.gelu(linear(p['ch1'], y)))
    return linear(params['head'], x.mean(1))


@dataclasses.dataclass(frozen=True)
class RMSProp:
    lr: float = 1e-3
    decay: float = 0.95
    eps: float = 1e-6
    momentum: float = 0.9

    def init(self, params):
        z = jax.tree.map(jnp.zeros_like, params)
        return {'nu': z, 'mom': z}

    def update(self, grads, state, params):
        nu = jax.tree.map(lambda n, g: self.decay * n + (1 - self.decay) * g ** 2, state['nu'], grads)
        upd = jax.tree.map(lambda g, n: g / jnp.sqrt(n + self.eps), grads, nu)
        mom = jax.tree.map(lambda m, u: self.momentum * m + u, state['mom'], upd)
        params = jax.tree.map(lambda p, m: p - self.lr * m, params, mom)
        return params, {'nu': nu, 'mom': mom}


opt = RMSProp()


@jax.jit
def update(params, state, img, label):
    def loss_fn(p):
        logits = mixer(p, img)
        onehot = jax.nn.one_hot(label, logits.shape[-1])
        return -(jax.nn.log_softmax(logits) * onehot).sum(-1).mean()
    loss, grads = jax.value_and_grad(loss_fn)(params)
    params, state = opt.update(grads, state, params)
    return params, state, loss


if __name__ == '__main__':
    params = init_mixer(jax.random.PRNGKey(0), 16, 24, 2, 10, 48)
    state = opt.init(params)
    rng = np.random.default_rng(5)
    for i in range(5):
        img = rng.normal(size=(4, 16, 16, 3)).astype(np.float32)
        label = rng.integers(0, 10, 4)
        if i == 0 and len(sys.argv) > 1:
            ir = update.lower(params, state, img, label).compiler_ir('hlo')
            open(sys.argv[1], 'w').write(ir.as_hlo_module().to_string())
        params, state, loss = update(params, state, img, label)
        print('it', i, 'loss %.4f' % loss)
