import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


# model


def forward(kernel, bias, head, inputs):
    hidden = jax.nn.relu(inputs @ kernel + bias)
    logits = hidden @ head
    return logits


def objective(kernel, bias, head, inputs, wanted):
    error = forward(kernel, bias, head, inputs) - wanted
    return jnp.mean(error ** 2)


grad_fn = jax.value_and_grad(objective, argnums=(0, 1, 2))
batch = (jnp.ones((5, 6)), jnp.ones((5, 3)))
OUT = jax.jit(grad_fn).lower(jnp.ones((6, 12)), jnp.ones((12,)), jnp.ones((12, 3)), *batch)
