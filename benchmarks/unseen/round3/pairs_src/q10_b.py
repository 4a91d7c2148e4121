import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def act(kind, x):
    return lax.switch(kind, [jnp.tanh, jnp.sin, jax.nn.relu], x)

OUT = jax.jit(act).lower(0, jnp.ones((7,)))
