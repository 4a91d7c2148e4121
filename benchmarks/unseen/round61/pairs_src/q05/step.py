"""Recurrent model identification of a building's HVAC loop, truncated BPTT (JAX)."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

OBS, ACT, HIDDEN = 5, 2, 16
BATCH, CHUNK, CHUNKS = 4, 12, 4


def dense_init(key, n_in, n_out):
    return {"w": jax.random.normal(key, (n_in, n_out)) / np.sqrt(n_in), "b": jnp.zeros(n_out)}


def init_params(key):
    k = jax.random.split(key, 6)
    return {
        "encoder": dense_init(k[0], OBS + ACT, HIDDEN),
        "gates": dense_init(k[1], 2 * HIDDEN, 2 * HIDDEN),
        "candidate": dense_init(k[2], 2 * HIDDEN, HIDDEN),
        "head": dense_init(k[3], HIDDEN, HIDDEN),
        "mean": dense_init(k[4], HIDDEN, OBS),
        "logstd": dense_init(k[5], HIDDEN, OBS),
    }


def dense(p, x):
    return x @ p["w"] + p["b"]


def cell(params, h, x):
    x = jnp.tanh(dense(params["encoder"], x))
    r, z = jnp.split(jax.nn.sigmoid(dense(params["gates"], jnp.concatenate([x, h], -1))), 2, -1)
    n = jnp.tanh(dense(params["candidate"], jnp.concatenate([x, r * h], -1)))
    return (1.0 - z) * n + z * h


def unroll(params, obs, act, carry):
    if carry is None:
        carry = jnp.zeros((obs.shape[1], HIDDEN))

    def body(h, inputs):
        o, a = inputs
        h = cell(params, h, jnp.concatenate([o, a], -1))
        y = jax.nn.silu(dense(params["head"], h))
        mean = o + dense(params["mean"], y)
        logstd = jnp.clip(dense(params["logstd"], y), -5.0, 1.0)
        return h, (mean, logstd)

    return jax.lax.scan(body, carry, (obs, act))


def nll(params, batch, carry):
    obs, act = batch["obs"][:-1], batch["act"][:-1]
    target = batch["obs"][1:]
    carry, (mean, logstd) = unroll(params, obs, act, carry)
    z = (target - mean) * jnp.exp(-logstd)
    ll = -0.5 * jnp.square(z) - logstd - 0.5 * jnp.log(2 * jnp.pi)
    loss = -(ll.sum(-1) * batch["valid"][1:]).sum() / jnp.maximum(batch["valid"][1:].sum(), 1.0)
    return loss, (carry, jnp.sqrt(jnp.square(target - mean).mean((0, 1))))


tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(2e-3, weight_decay=1e-4))


@functools.partial(jax.jit, donate_argnums=(0, 1))
def train_step(params, opt_state, batch, carry=None):
    (loss, (carry, rmse)), grads = jax.value_and_grad(nll, has_aux=True)(params, batch, carry)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, jax.lax.stop_gradient(carry), {"loss": loss, "rmse": rmse}


def episodes(seed, n):
    """Random-telegraph valve commands through a two-zone RC network."""
    rng = np.random.default_rng(seed)
    length = CHUNK * CHUNKS + 1
    for _ in range(n):
        act = np.repeat(rng.integers(0, 2, (length // 6 + 1, BATCH, ACT)), 6, axis=0)[:length]
        x = rng.normal(size=(BATCH, OBS)) * 0.1
        obs = np.empty((length, BATCH, OBS))
        mix = 0.1 * rng.normal(size=(OBS, OBS)) - 0.2 * np.eye(OBS)
        drive = rng.normal(size=(ACT, OBS)) * 0.3
        for t in range(length):
            obs[t] = x
            x = x + x @ mix + act[t] @ drive + 0.01 * rng.normal(size=x.shape)
        yield obs.astype(np.float32), act.astype(np.float32)


def main():
    params = init_params(jax.random.key(0))
    opt_state = tx.init(params)
    for episode, (obs, act) in enumerate(episodes(1, 2)):
        carry = None
        for c in range(CHUNKS):
            window = slice(c * CHUNK, (c + 1) * CHUNK + 1)
            batch = {"obs": obs[window], "act": act[window],
                     "valid": np.ones((CHUNK + 1, BATCH), np.float32)}
            params, opt_state, carry, metrics = train_step(params, opt_state, batch, carry)
            print(episode, c, float(metrics["loss"]), flush=True)


if __name__ == "__main__":
    main()
