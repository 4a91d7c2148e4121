import sys
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def conv(x, w, stride=1):
    return lax.conv_general_dilated(x, w, (stride, stride), 'SAME',
                                    dimension_numbers=('NHWC', 'HWIO', 'NHWC'))


def upsample(x):
    b, h, w, c = x.shape
    return jax.image.resize(x, (b, 2 * h, 2 * w, c), 'nearest')


def init(key):
    k = jax.random.split(key, 6)
    he = lambda k, *s: jax.random.normal(k, s) * np.sqrt(2 / np.prod(s[:-1]))
    return {
        'conv1': he(k[0], 3, 3, 3, 8), 'bias1': jnp.zeros(8),
        'conv2': he(k[1], 3, 3, 8, 12), 'bias2': jnp.zeros(12),
        'code_w': he(k[2], 192, 10), 'code_b': jnp.zeros(10),
        'expand_w': he(k[3], 10, 192), 'expand_b': jnp.zeros(192),
        'deconv1': he(k[4], 3, 3, 12, 8), 'dbias1': jnp.zeros(8),
        'deconv2': he(k[5], 3, 3, 8, 3), 'dbias2': jnp.zeros(3),
    }


def reconstruct(p, x):
    h = jax.nn.elu(conv(x, p['conv1'], 2) + p['bias1'])
    h = jax.nn.elu(conv(h, p['conv2'], 2) + p['bias2'])
    z = h.reshape(h.shape[0], -1) @ p['code_w'] + p['code_b']
    h = jax.nn.elu(z @ p['expand_w'] + p['expand_b']).reshape(-1, 4, 4, 12)
    h = jax.nn.elu(conv(upsample(h), p['deconv1']) + p['dbias1'])
    return conv(upsample(h), p['deconv2']) + p['dbias2'], z


def loss_fn(p, noisy, clean):
    y, z = reconstruct(p, noisy)
    err = y - clean
    charbonnier = jnp.sqrt(err * err + 1e-3).mean()
    return charbonnier + 1e-3 * jnp.abs(z).mean(), charbonnier


@jax.jit
def step(params, velocity, noisy, clean):
    (loss, rec), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, noisy, clean)
    velocity = {k: 0.9 * velocity[k] + grads[k] for k in params}
    params = {k: params[k] - 0.03 * velocity[k] for k in params}
    return params, velocity, rec


def main():
    params = init(jax.random.PRNGKey(1))
    velocity = {k: jnp.zeros_like(v) for k, v in params.items()}
    rng = np.random.default_rng(0)
    for it in range(6):
        clean = rng.uniform(size=(4, 16, 16, 3)).astype('float32')
        noisy = clean + 0.1 * rng.normal(size=clean.shape).astype('float32')
        if it == 0 and len(sys.argv) > 1:
            ir = step.lower(params, velocity, noisy, clean).compiler_ir('hlo')
            open(sys.argv[1], 'w').write(ir.as_hlo_module().to_string())
        params, velocity, rec = step(params, velocity, noisy, clean)
        if it % 2:
            print(it, 'rec', float(rec))


if __name__ == '__main__':
    main()
