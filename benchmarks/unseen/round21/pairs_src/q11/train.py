from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def init(rng, state=4, hidden=12):
    return {
        "w1": jnp.asarray(rng.normal(size=(state, hidden)) * 0.4, jnp.float32),
        "b1": jnp.zeros(hidden),
        "w2": jnp.asarray(rng.normal(size=(hidden, state)) * 0.4, jnp.float32),
    }


def dynamics(params, s):
    return s + jnp.tanh(s @ params["w1"] + params["b1"]) @ params["w2"]


def rollout_error(params, start, end, horizon):
    def body(_, s):
        return dynamics(params, s)

    return jnp.mean((lax.fori_loop(0, horizon, body, start) - end) ** 2)


@partial(jax.jit, static_argnames="horizon")
def train_step(params, trajectory, horizon):
    def loss_fn(p):
        return rollout_error(p, trajectory[0], trajectory[horizon], horizon)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    return {k: v - 0.05 * grads[k] for k, v in params.items()}, loss


def simulate(rng, n, length):
    a = np.array([[0.9, 0.2, 0, 0], [-0.2, 0.9, 0, 0],
                  [0, 0, 0.95, 0.1], [0, 0, -0.1, 0.95]], np.float32)
    states = [rng.normal(size=(n, 4)).astype(np.float32)]
    for _ in range(length):
        states.append(states[-1] @ a.T)
    return np.stack(states)


def main():
    rng = np.random.default_rng(3)
    params = init(rng)
    for step in range(8):
        horizon = 2 + step // 4
        trajectory = simulate(rng, 8, 6)
        params, loss = train_step(params, trajectory, horizon=horizon)
        print(step, horizon, round(float(loss), 4))


if __name__ == "__main__":
    main()
