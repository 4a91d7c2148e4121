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
        'down1_kernel': he(k[0], 3, 3, 3, 8), 'down1_bias': jnp.zeros(8),
        'down2_kernel': he(k[1], 3, 3, 8, 12), 'down2_bias': jnp.zeros(12),
        'to_z_kernel': he(k[2], 192, 10), 'to_z_bias': jnp.zeros(10),
        'from_z_kernel': he(k[3], 10, 192), 'from_z_bias': jnp.zeros(192),
        'up1_kernel': he(k[4], 3, 3, 12, 8), 'up1_bias': jnp.zeros(8),
        'up2_kernel': he(k[5], 3, 3, 8, 3), 'up2_bias': jnp.zeros(3),
    }


def reconstruct(p, x):
    h = jax.nn.elu(conv(x, p['down1_kernel'], 2) + p['down1_bias'])
    h = jax.nn.elu(conv(h, p['down2_kernel'], 2) + p['down2_bias'])
    z = h.reshape(h.shape[0], -1) @ p['to_z_kernel'] + p['to_z_bias']
    h = jax.nn.elu(z @ p['from_z_kernel'] + p['from_z_bias']).reshape(-1, 4, 4, 12)
    h = jax.nn.elu(conv(upsample(h), p['up1_kernel']) + p['up1_bias'])
    return conv(upsample(h), p['up2_kernel']) + p['up2_bias'], z


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
