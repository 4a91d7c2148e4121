import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def covariance(a, b):
    return lax.dot_general(jnp.tanh(a), jnp.exp(b), (((1,), (1,)), ((), ()))) - a * b

OUT = jax.jit(covariance).lower(jnp.ones((5, 5)), jnp.ones((5, 5)))
