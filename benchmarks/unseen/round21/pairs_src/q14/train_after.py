from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

GAMMA = 0.97


def init(rng, obs, hidden, actions):
    return {
        "w1": jnp.asarray(rng.normal(size=(obs, hidden)) * 0.3, jnp.float32),
        "b1": jnp.zeros(hidden),
        "w2": jnp.asarray(rng.normal(size=(hidden, actions)) * 0.3, jnp.float32),
        "b2": jnp.zeros(actions),
    }


def q_values(params, obs):
    h = jax.nn.relu(obs @ params["w1"] + params["b1"])
    return h @ params["w2"] + params["b2"]


def td_loss(params, batch):
    q = q_values(params, batch["obs"])
    q = jnp.take_along_axis(q, batch["action"][:, None], 1)[:, 0]
    bootstrap = q_values(params, batch["next_obs"]).max(-1)
    target = batch["reward"] + GAMMA * (1.0 - batch["done"]) * jax.lax.stop_gradient(bootstrap)
    return jnp.mean((q - target) ** 2)


@partial(jax.jit, donate_argnums=(0, 1))
def train_step(params, momentum, batch):
    loss, grads = jax.value_and_grad(td_loss)(params, batch)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
    params = jax.tree.map(lambda p, m: p - 0.02 * m, params, momentum)
    return params, momentum, loss


def sample(rng, n, obs, actions):
    return {
        "obs": rng.normal(size=(n, obs)).astype(np.float32),
        "next_obs": rng.normal(size=(n, obs)).astype(np.float32),
        "action": rng.integers(0, actions, n).astype(np.int32),
        "reward": rng.normal(size=n).astype(np.float32),
        "done": (rng.random(n) < 0.1).astype(np.float32),
    }


def main():
    rng = np.random.default_rng(4)
    params = init(rng, 6, 16, 3)
    momentum = jax.tree.map(jnp.zeros_like, params)
    for _ in range(5):
        batch = sample(rng, 12, 6, 3)
        params, momentum, loss = train_step(params, momentum, batch)
        print("loss %.4f" % loss)


if __name__ == "__main__":
    main()
