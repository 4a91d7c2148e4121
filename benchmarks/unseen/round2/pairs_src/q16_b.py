import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


importance = np.array([1.0, 0.5, 2.0, 1.0, 0.5, 4.0], np.float32)

def scores(q, k):
    return jax.nn.softmax((q @ k.T) * importance)

OUT = jax.jit(scores).lower(jnp.ones((4, 5)), jnp.ones((6, 5)))
