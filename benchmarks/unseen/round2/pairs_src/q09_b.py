import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def solve(a, b, x):
    def cond(state):
        i, x, err = state
        return (i < 20) & (err > 1e-3)

    def body(state):
        i, x, _ = state
        r = a @ x - b
        new = x + 0.1 * r
        return i + 1, new, jnp.max(jnp.abs(r))

    return lax.while_loop(cond, body, (0, x, jnp.float32(jnp.inf)))

OUT = jax.jit(solve).lower(jnp.eye(5), jnp.ones((5,)), jnp.zeros((5,)))
