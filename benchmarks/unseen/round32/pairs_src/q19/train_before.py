"""Probabilistic ensemble dynamics model (PETS style) for a cart-pole-like plant.

Every member sees its own bootstrap of the replay buffer and predicts a Gaussian
over the change of state.
"""
import jax
import jax.numpy as jnp
import numpy as np
import optax

MEMBERS, STATE, ACTION, HIDDEN, BATCH = 4, 5, 2, 14, 10
WEIGHT_DECAY = 5e-4


def init_member(key):
    sizes = [STATE + ACTION, HIDDEN, HIDDEN, 2 * STATE]
    layers = []
    for k, i, o in zip(jax.random.split(key, len(sizes) - 1), sizes[:-1], sizes[1:]):
        w = jax.random.truncated_normal(k, -2, 2, (i, o)) / (2 * np.sqrt(i))
        layers.append({"w": w, "b": jnp.zeros(o)})
    return {"layers": layers}


def init(key):
    params = jax.vmap(init_member)(jax.random.split(key, MEMBERS))
    params["max_logvar"] = jnp.full((STATE,), 0.5)
    params["min_logvar"] = jnp.full((STATE,), -8.0)
    return params


def member_forward(layers, x):
    for layer in layers[:-1]:
        x = jax.nn.silu(x @ layer["w"] + layer["b"])
    out = x @ layers[-1]["w"] + layers[-1]["b"]
    return jnp.split(out, 2, axis=-1)


def bounded(logvar, lo, hi):
    logvar = hi - jax.nn.softplus(hi - logvar)
    return lo + jax.nn.softplus(logvar - lo)


def member_nll(layers, lo, hi, x, delta):
    mean, logvar = member_forward(layers, x)
    logvar = bounded(logvar, lo, hi)
    nll = jnp.square(mean - delta) * jnp.exp(-logvar) + logvar
    return nll.mean()


def loss_fn(params, obs, act, nxt, norm):
    mu, sigma = norm
    x = (jnp.concatenate([obs, act], -1) - mu) / sigma
    lo, hi = params["min_logvar"], params["max_logvar"]
    per_member = jax.vmap(member_nll, in_axes=(0, None, None, 0, 0))(params["layers"], lo, hi, x, nxt - obs)
    return per_member.sum() + 0.01 * (hi.sum() - lo.sum())


tx = optax.adamw(1e-3, b1=0.9, b2=0.999, weight_decay=WEIGHT_DECAY)


def train_step(params, opt_state, obs, act, nxt, norm):
    loss, grads = jax.value_and_grad(loss_fn)(params, obs, act, nxt, norm)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def replay(seed, n=400):
    rng = np.random.default_rng(seed)
    obs = rng.standard_normal((n, STATE)).astype(np.float32)
    act = rng.uniform(-1, 1, (n, ACTION)).astype(np.float32)
    A = 0.1 * rng.standard_normal((STATE, STATE))
    B = 0.3 * rng.standard_normal((ACTION, STATE))
    nxt = obs + np.sin(obs) @ A + act @ B + 0.01 * rng.standard_normal(obs.shape)
    return obs, act, nxt.astype(np.float32)


def bootstraps(buffer, seed):
    rng = np.random.default_rng(seed)
    while True:
        idx = rng.integers(0, len(buffer[0]), (MEMBERS, BATCH))
        yield tuple(jnp.asarray(b[idx]) for b in buffer)


def normaliser(buffer):
    xa = np.concatenate(buffer[:2], -1)
    return jnp.asarray(xa.mean(0)), jnp.asarray(xa.std(0) + 1e-6)


def main(steps=8):
    params = init(jax.random.PRNGKey(7))
    opt_state = tx.init(params)
    buffer = replay(0)
    norm = normaliser(buffer)
    step = jax.jit(train_step)
    for i, (o, a, n) in zip(range(steps), bootstraps(buffer, 3)):
        params, opt_state, loss = step(params, opt_state, o, a, n, norm)
        print(i, float(loss))


if __name__ == "__main__":
    main()
