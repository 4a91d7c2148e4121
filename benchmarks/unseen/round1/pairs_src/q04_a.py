import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def step(params, mom, x, y):
    def loss(p):
        h = jnp.tanh(x @ p["w1"])
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(h @ p["w2"]) * y, -1))
    l, g = jax.value_and_grad(loss)(params)
    mom = jax.tree.map(lambda m, d: 0.9 * m + d, mom, g)
    params = jax.tree.map(lambda p, m: p - 0.05 * m, params, mom)
    return params, mom, l

p = {"w1": jnp.ones((4, 8)), "w2": jnp.ones((8, 3))}
OUT = jax.jit(step).lower(p, p, jnp.ones((7, 4)), jnp.ones((7, 3)))
