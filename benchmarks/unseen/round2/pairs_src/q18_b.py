import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def predict(p, x):
    h = jnp.sin(x @ p["z_in"] + p["y_in"])
    return h @ p["k_out"]

OUT = jax.jit(predict).lower({"z_in": jnp.ones((3, 7)), "y_in": jnp.ones((7,)), "k_out": jnp.ones((7, 2))}, jnp.ones((4, 3)))
