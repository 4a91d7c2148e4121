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


SIZES = [STATE + ACTION, HIDDEN, HIDDEN, 2 * STATE]


def init(key):
    ws, bs = [], []
    member_keys = jax.random.split(key, MEMBERS)
    for n, (i, o) in enumerate(zip(SIZES[:-1], SIZES[1:])):
        draw = lambda k: jax.random.truncated_normal(jax.random.split(k, len(SIZES) - 1)[n], -2, 2, (i, o))
        ws.append(jnp.stack([draw(k) for k in member_keys]) / (2 * np.sqrt(i)))
        bs.append(jnp.zeros((MEMBERS, 1, o)))
    return {
        "weights": ws,
        "biases": bs,
        "logvar_range": jnp.stack([jnp.full((STATE,), -8.0), jnp.full((STATE,), 0.5)]),
    }


def forward(params, x):
    """x: [member, batch, in] -> mean, logvar, each [member, batch, STATE]."""
    last = len(params["weights"]) - 1
    for n, (w, b) in enumerate(zip(params["weights"], params["biases"])):
        x = jnp.einsum("ebi,eio->ebo", x, w) + b
        if n < last:
            x = x * jax.nn.sigmoid(x)
    lo, hi = params["logvar_range"]
    mean, logvar = x[..., :STATE], x[..., STATE:]
    logvar = hi - jax.nn.softplus(hi - logvar)
    logvar = lo + jax.nn.softplus(logvar - lo)
    return mean, logvar


def loss_fn(params, obs, act, nxt, norm):
    mu, sigma = norm
    mean, logvar = forward(params, (jnp.concatenate([obs, act], -1) - mu) / sigma)
    err = (nxt - obs) - mean
    nll = (jnp.exp(-logvar) * err * err + logvar).sum() / (BATCH * STATE)
    lo, hi = params["logvar_range"]
    return nll + 0.01 * (hi - lo).sum()


tx = optax.chain(
    optax.scale_by_adam(b1=0.9, b2=0.999),
    optax.add_decayed_weights(WEIGHT_DECAY),
    optax.scale(-1e-3),
)


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
