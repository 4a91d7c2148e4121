import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def iterate(matrix, rhs, start):
    def keep_going(carry):
        n, _, worst = carry
        small = worst > 1e-3
        few = n < 20
        return few & small

    def improve(carry):
        n, guess, _ = carry
        residual = rhs - matrix @ guess
        worst = jnp.max(jnp.abs(residual))
        better = guess + 0.1 * residual
        count = n + 1
        return count, better, worst

    return lax.while_loop(keep_going, improve, (0, start, jnp.float32(jnp.inf)))

OUT = jax.jit(iterate).lower(jnp.eye(5), jnp.ones((5,)), jnp.zeros((5,)))
