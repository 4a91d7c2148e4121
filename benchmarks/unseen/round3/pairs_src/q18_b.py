import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def f(x, second, first):
    return jnp.sin(x @ first) @ second

OUT = jax.jit(f).lower(jnp.ones((3, 5)), jnp.ones((5, 5)), jnp.ones((5, 5)))
