import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def order(x, ids):
    keys, vals = lax.sort((x, ids), dimension=1, num_keys=1)
    return vals[:, :3]

OUT = jax.jit(order).lower(jnp.ones((4, 9)), jnp.zeros((4, 9), jnp.int32))
