"""One-step TD learning of a Q network on a toy chain, with a Polyak target."""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

OBS, ACT, GAMMA, TAU = 8, 4, 0.97, 0.01


class QNet(nn.Module):
    hidden: int = 32

    @nn.compact
    def __call__(self, obs):
        x = nn.tanh(nn.Dense(self.hidden, name="l0")(obs))
        x = nn.LayerNorm(name="n0")(x)
        x = nn.tanh(nn.Dense(self.hidden, name="l1")(x))
        value = nn.Dense(1, name="value")(x)
        adv = nn.Dense(ACT, name="adv")(x)
        return value + adv - adv.mean(-1, keepdims=True)


net = QNet()
tx = optax.chain(optax.clip_by_global_norm(5.0), optax.adam(1e-3))


def td_loss(params, target_params, batch):
    q = net.apply(params, batch["obs"])
    q_sa = jnp.take_along_axis(q, batch["act"][:, None], axis=1)[:, 0]
    best = net.apply(params, batch["next_obs"]).argmax(-1)
    q_next = net.apply(target_params, batch["next_obs"])
    q_next = jnp.take_along_axis(q_next, best[:, None], axis=1)[:, 0]
    target = batch["rew"] + GAMMA * (1.0 - batch["done"]) * q_next
    err = q_sa - jax.lax.stop_gradient(target)
    loss = jnp.where(jnp.abs(err) < 1.0, 0.5 * err**2, jnp.abs(err) - 0.5).mean()
    return loss, jnp.abs(err)


@jax.jit
def train_step(state, batch):
    grad_fn = jax.value_and_grad(td_loss, has_aux=True)
    (loss, err), grads = grad_fn(state["params"], state["target"], batch)
    updates, opt_state = tx.update(grads, state["opt"], state["params"])
    params = optax.apply_updates(state["params"], updates)
    target = jax.tree.map(lambda t, p: (1 - TAU) * t + TAU * p, state["target"], params)
    return {"params": params, "target": target, "opt": opt_state}, loss, err


def init_state(seed):
    params = net.init(jax.random.key(seed), jnp.zeros((1, OBS)))
    return {"params": params, "target": params, "opt": tx.init(params)}


def replay(rng, n):
    return {
        "obs": rng.normal(size=(n, OBS)).astype(np.float32),
        "act": rng.integers(0, ACT, n).astype(np.int32),
        "rew": rng.normal(size=n).astype(np.float32),
        "next_obs": rng.normal(size=(n, OBS)).astype(np.float32),
        "done": (rng.random(n) < 0.1).astype(np.float32),
    }


if __name__ == "__main__":
    state = init_state(0)
    rng = np.random.default_rng(0)
    for i in range(5):
        state, loss, err = train_step(state, replay(rng, 48))
        print(i, f"{float(loss):.9f}", f"{float(err.max()):.6f}")
