import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def lookup(table, ids):
    return jnp.take(table, ids, axis=0, mode="clip") * 2.0

OUT = jax.jit(lookup).lower(jnp.ones((8, 8)), jnp.zeros((8,), jnp.int32))
