import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def encode(emb, ids, w):
    h = emb[ids]
    pooled = h.max(1)
    return jax.nn.softmax(pooled @ w)

OUT = jax.jit(encode).lower(jnp.ones((20, 8)), jnp.zeros((3, 5), jnp.int32), jnp.ones((8, 4)))
