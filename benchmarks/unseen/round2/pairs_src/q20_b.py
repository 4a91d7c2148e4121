import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def towers(w_item, item, user, w_user):
    right = jax.nn.relu(item @ w_item)
    left = jnp.tanh(user @ w_user)
    return jnp.sum(left * right, -1)

OUT = jax.jit(towers).lower(jnp.ones((4, 6)), jnp.ones((5, 4)), jnp.ones((5, 3)), jnp.ones((3, 6)))
