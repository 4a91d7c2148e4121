"""Probabilistic ensemble dynamics model (PETS style): three members, bootstrapped batches."""
import jax
import jax.numpy as jnp
import numpy as np
import optax

OBS, ACT, HIDDEN, MEMBERS = 5, 2, 16, 3
BATCH = 8


def init_member(key):
    dims = [OBS + ACT, HIDDEN, HIDDEN, 2 * OBS]
    keys = jax.random.split(key, len(dims) - 1)
    return {
        "layers": [
            {"w": jax.random.truncated_normal(k, -2, 2, (i, o)) / (2 * np.sqrt(i)), "b": jnp.zeros((o,))}
            for k, i, o in zip(keys, dims[:-1], dims[1:])
        ],
        "max_logvar": jnp.full((OBS,), 0.5),
        "min_logvar": jnp.full((OBS,), -10.0),
    }


def init(seed=0):
    return jax.vmap(init_member)(jax.random.split(jax.random.key(seed), MEMBERS))


def predict(params, obs, act):
    h = jnp.concatenate([obs, act], axis=-1)
    for layer in params["layers"][:-1]:
        h = jax.nn.swish(h @ layer["w"] + layer["b"])
    out = h @ params["layers"][-1]["w"] + params["layers"][-1]["b"]
    mean, logvar = jnp.split(out, 2, axis=-1)
    logvar = params["max_logvar"] - jax.nn.softplus(params["max_logvar"] - logvar)
    logvar = params["min_logvar"] + jax.nn.softplus(logvar - params["min_logvar"])
    return mean, logvar


def member_loss(params, obs, act, nxt):
    mean, logvar = predict(params, obs, act)
    inv_var = jnp.exp(-logvar)
    nll = (jnp.square(mean - (nxt - obs)) * inv_var + logvar).mean(-1).mean()
    bounds = 0.01 * (params["max_logvar"].sum() - params["min_logvar"].sum())
    decay = sum(1e-4 * jnp.square(l["w"]).sum() for l in params["layers"])
    return nll + bounds + decay


def loss_fn(ensemble, batch):
    losses = jax.vmap(member_loss)(ensemble, batch["obs"], batch["act"], batch["next"])
    return losses.sum(), losses


tx = optax.chain(optax.clip_by_global_norm(5.0), optax.sgd(3e-3, momentum=0.9))


@jax.jit
def train_step(ensemble, opt_state, batch):
    (_, losses), grads = jax.value_and_grad(loss_fn, has_aux=True)(ensemble, batch)
    updates, opt_state = tx.update(grads, opt_state, ensemble)
    return optax.apply_updates(ensemble, updates), opt_state, losses


def replay(steps, size=200, seed=0):
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=(size, OBS)).astype(np.float32)
    act = rng.uniform(-1, 1, size=(size, ACT)).astype(np.float32)
    nxt = (obs + 0.1 * np.tanh(obs) + 0.05 * act.sum(1, keepdims=True)).astype(np.float32)
    for _ in range(steps):
        idx = rng.integers(0, size, (MEMBERS, BATCH))
        yield {"obs": obs[idx], "act": act[idx], "next": nxt[idx]}


def main(steps=5, on_step=None):
    ensemble = init()
    opt_state = tx.init(ensemble)
    history = []
    for i, batch in enumerate(replay(steps)):
        if on_step is not None:
            on_step(i, train_step, ensemble, opt_state, batch)
        ensemble, opt_state, losses = train_step(ensemble, opt_state, batch)
        history.append(np.asarray(losses))
    return ensemble, history


if __name__ == "__main__":
    for row in main()[1]:
        print(row)
