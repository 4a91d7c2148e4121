"""Fits a neural friction term and spring constants of a chain of masses through its simulation."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

MASSES, STEPS, DT = 5, 12, 0.05


class Friction(nn.Module):
    @nn.compact
    def __call__(self, vel):
        h = nn.tanh(nn.Dense(8)(vel[..., None]))
        h = nn.tanh(nn.Dense(8)(h))
        return -nn.softplus(nn.Dense(1)(h))[..., 0] * vel


friction = Friction()


def init_params(key):
    return {
        "friction": friction.init(key, jnp.zeros((1, MASSES))),
        "log_k": jnp.zeros((MASSES + 1,)),
        "rest": jnp.ones((MASSES + 1,)) * 0.2,
    }


def force(params, pos, vel):
    wall = jnp.ones(pos.shape[:-1] + (1,))
    ends = jnp.concatenate([jnp.zeros_like(wall), pos, wall], axis=-1)
    stretch = jnp.diff(ends, axis=-1) - params["rest"]
    tension = jnp.exp(params["log_k"]) * stretch
    return tension[..., 1:] - tension[..., :-1] + friction.apply(params["friction"], vel)


def simulate(params, pos0, vel0):
    def body(state, _):
        pos, vel = state
        new_vel = vel + DT * force(params, pos, vel)
        new_pos = pos + DT * vel
        return (new_pos, new_vel), new_pos

    _, traj = jax.lax.scan(body, (pos0, vel0), None, length=STEPS)
    return traj


def loss_fn(params, batch):
    traj = simulate(params, batch["pos0"], batch["vel0"])
    err = traj - jnp.swapaxes(batch["traj"], 0, 1)
    weight = 0.97 ** jnp.arange(STEPS)
    fit = (weight[:, None, None] * optax.losses.huber_loss(err, delta=0.1)).sum(0).mean()
    prior = 1e-3 * jnp.sum(params["log_k"] ** 2)
    return fit + prior, jnp.abs(err).max()


tx = optax.chain(
    optax.scale_by_adam(b2=0.99),
    optax.clip_by_global_norm(0.5),
    optax.scale_by_learning_rate(optax.cosine_decay_schedule(3e-3, 500)),
)


def train_step(params, opt_state, batch):
    (loss, worst), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, {"loss": loss, "worst": worst}


def main(out):
    key = jax.random.PRNGKey(0)
    params = init_params(key)
    opt_state = tx.init(params)
    k1, k2, k3 = jax.random.split(key, 3)
    batch = {
        "pos0": jnp.sort(jax.random.uniform(k1, (4, MASSES)), axis=-1),
        "vel0": 0.1 * jax.random.normal(k2, (4, MASSES)),
        "traj": jnp.sort(jax.random.uniform(k3, (4, STEPS, MASSES)), axis=-1),
    }
    lowered = jax.jit(train_step).lower(params, opt_state, batch)
    with open(out, "w") as f:
        f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    step = jax.jit(train_step)
    for i in range(3):
        params, opt_state, logs = step(params, opt_state, batch)
        print(i, float(logs["loss"]), float(logs["worst"]))


if __name__ == "__main__":
    main(sys.argv[1])
