import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def net(w1, b1, w2, x):
    h = jax.nn.relu(x @ w1 + b1)
    return h @ w2

def loss(w1, b1, w2, x, y):
    return jnp.mean((net(w1, b1, w2, x) - y) ** 2)

args = (jnp.ones((6, 12)), jnp.ones((12,)), jnp.ones((12, 3)), jnp.ones((5, 6), jnp.bfloat16), jnp.ones((5, 3)))
OUT = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2))).lower(*args)
