import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def stats(a, b):
    c = jnp.cumsum(a, 1)
    s = jnp.std(b, 0)
    m = jnp.mean(a, 0)
    return m, s, c

OUT = jax.jit(stats).lower(jnp.ones((6, 4)), jnp.ones((6, 4)))
