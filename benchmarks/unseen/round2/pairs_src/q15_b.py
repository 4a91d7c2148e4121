import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def adam(p, m, v, g, t):
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    mh = m / (1 - 0.9 ** t)
    vh = v / (1 - 0.999 ** t)
    step = mh / (jnp.sqrt(vh) + 1e-8)
    return p - 3e-4 * (step + 0.01 * p), m, v

a = jnp.ones((8, 3))
OUT = jax.jit(adam).lower(a, a, a, a, 1.0)
