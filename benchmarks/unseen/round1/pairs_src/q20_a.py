import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def stats(a, b):
    m = jnp.mean(a, 0)
    s = jnp.std(b, 0)
    c = jnp.cumsum(a, 1)
    return m, s, c

OUT = jax.jit(stats).lower(jnp.ones((6, 4)), jnp.ones((6, 4)))
