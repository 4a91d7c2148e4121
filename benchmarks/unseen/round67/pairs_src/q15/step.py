"""Variational Monte Carlo for a few trapped fermions with a small neural backflow ansatz."""
from typing import NamedTuple, Optional

import jax
import jax.numpy as jnp
import optax

N, DIM, WALKERS, WIDTH = 2, 2, 16, 10


class VMCState(NamedTuple):
    params: dict
    opt_state: optax.OptState
    walkers: jax.Array
    key: jax.Array
    e_ref: Optional[jax.Array]


def init_params(key):
    k1, k2, k3 = jax.random.split(key, 3)
    return {
        "one": 0.4 * jax.random.normal(k1, (DIM + 1, WIDTH)),
        "mix": 0.4 * jax.random.normal(k2, (2 * WIDTH, WIDTH)),
        "orb": 0.4 * jax.random.normal(k3, (WIDTH, N)),
        "bias": jnp.zeros(WIDTH),
        "omega": jnp.array(1.0),
    }


def log_psi(params, r):
    r = r.reshape(N, DIM)
    r2 = jnp.sum(r**2, -1, keepdims=True)
    h = jnp.tanh(jnp.concatenate([r, r2], -1) @ params["one"])
    pooled = jnp.broadcast_to(h.mean(0), h.shape)
    h = jnp.tanh(jnp.concatenate([h, pooled], -1) @ params["mix"] + params["bias"])
    orb = h @ params["orb"] + jnp.stack([jnp.ones(N), r[:, 0]], -1)
    det = orb[0, 0] * orb[1, 1] - orb[0, 1] * orb[1, 0]
    return jnp.log(jnp.abs(det) + 1e-12) - 0.5 * params["omega"] * r2.sum()


def local_energy(params, r):
    grad = jax.grad(log_psi, argnums=1)
    g, hvp = jax.linearize(lambda x: grad(params, x), r)
    lap = jnp.trace(jax.vmap(hvp)(jnp.eye(r.size)))
    dist = jnp.linalg.norm(r[:DIM] - r[DIM:])
    return -0.5 * (lap + g @ g) + 0.5 * r @ r + 1.0 / dist


def metropolis(params, walkers, key, width=0.4):
    kp, ka = jax.random.split(key)
    move = walkers + width * jax.random.normal(kp, walkers.shape)
    lp = jax.vmap(log_psi, (None, 0))
    accept = 2 * (lp(params, move) - lp(params, walkers)) > jnp.log(jax.random.uniform(ka, (walkers.shape[0],)))
    return jnp.where(accept[:, None], move, walkers)


tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(2e-3))


@jax.jit
def update(state):
    key, sub = jax.random.split(state.key)
    walkers = metropolis(state.params, state.walkers, sub)
    e_loc = jax.vmap(local_energy, (None, 0))(state.params, walkers)
    center = e_loc.mean()
    mad = jnp.mean(jnp.abs(e_loc - center))
    e_loc = jnp.clip(e_loc, center - 5 * mad, center + 5 * mad)

    e_mean = e_loc.mean()
    e_ref = e_mean if state.e_ref is None else 0.95 * state.e_ref + 0.05 * e_mean

    def surrogate(p):
        lp = jax.vmap(log_psi, (None, 0))(p, walkers)
        return 2.0 * jnp.mean(lp * jax.lax.stop_gradient(e_loc - e_ref))

    grads = jax.grad(surrogate)(state.params)
    updates, opt_state = tx.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    return VMCState(params, opt_state, walkers, key, e_ref), e_mean


def main(iters=5):
    key = jax.random.key(42)
    key, kp, kw = jax.random.split(key, 3)
    params = init_params(kp)
    state = VMCState(params, tx.init(params), jax.random.normal(kw, (WALKERS, N * DIM)), key, None)
    for it in range(iters):
        state, energy = update(state)
        print(it, float(energy), update._cache_size())


if __name__ == "__main__":
    main()
