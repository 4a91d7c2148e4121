import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def pool(x):
    s = lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "VALID")
    return s * 0.25

OUT = jax.jit(pool).lower(jnp.ones((2, 7, 7, 3)))
