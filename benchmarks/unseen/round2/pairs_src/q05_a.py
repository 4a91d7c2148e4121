import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def pool(x, seg):
    out = jnp.zeros((6, 4))
    return out.at[seg].add(x, unique_indices=False)

OUT = jax.jit(pool).lower(jnp.ones((10, 4)), jnp.zeros((10,), jnp.int32))
