import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def conv(x, k):
    y = lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=2)
    return jax.nn.silu(y)

OUT = jax.jit(conv).lower(jnp.ones((2, 6, 6, 4)), jnp.ones((3, 3, 2, 8)))
