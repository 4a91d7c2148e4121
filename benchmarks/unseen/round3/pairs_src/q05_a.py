import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def covariance(a, b):
    return jnp.tanh(a) @ jnp.exp(b) - a * b

OUT = jax.jit(covariance).lower(jnp.ones((5, 5)), jnp.ones((5, 5)))
