import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def predict(p, x):
    h = jnp.sin(x @ p["a_in"] + p["b_in"])
    return h @ p["c_out"]

OUT = jax.jit(predict).lower({"a_in": jnp.ones((3, 7)), "b_in": jnp.ones((7,)), "c_out": jnp.ones((7, 2))}, jnp.ones((4, 3)))
