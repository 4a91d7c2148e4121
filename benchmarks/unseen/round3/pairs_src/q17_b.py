import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


# recurrent cell
def step(w, state, inp):
    update = jax.nn.sigmoid(inp @ w["wz"] + state @ w["uz"])
    reset = jax.nn.sigmoid(inp @ w["wr"] + state @ w["ur"])
    new = jnp.tanh(inp @ w["wn"] + (reset * state) @ w["un"])
    return (1 - update) * new + update * state


def unroll(w, state, sequence):
    def body(state, inp):
        state = step(w, state, inp)
        return state, state.mean()

    return lax.scan(body, state, sequence)


weights = {k + g: jnp.ones((4, 6) if k == "w" else (6, 6)) for k in "wu" for g in "zrn"}
OUT = jax.jit(unroll).lower(weights, jnp.ones((2, 6)), jnp.ones((9, 2, 4)))
