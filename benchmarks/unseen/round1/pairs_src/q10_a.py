import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def clip(flag, g):
    return lax.cond(flag, lambda t: t * 0.5, lambda t: jnp.sign(t), g)

OUT = jax.jit(clip).lower(True, jnp.ones((9,)))
