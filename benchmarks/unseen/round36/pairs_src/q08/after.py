"""Density of calorimeter shower shapes by a conditional coupling flow (fast detector simulation)."""
import argparse

import jax
import jax.numpy as jnp
import optax

DIM, COND, WIDTH, LAYERS = 6, 2, 16, 4


def init_params(key):
    def dense(k, n_layers, a, b, scale):
        return scale * jax.random.normal(k, (n_layers, a, b)) / jnp.sqrt(a)

    k1, k2, k3 = jax.random.split(key, 3)
    return {
        "w1": dense(k1, LAYERS, DIM + COND, WIDTH, 1.0),
        "b1": jnp.zeros((LAYERS, WIDTH)),
        "w2": dense(k2, LAYERS, WIDTH, WIDTH, 1.0),
        "b2": jnp.zeros((LAYERS, WIDTH)),
        "w3": dense(k3, LAYERS, WIDTH, 2 * DIM, 0.1),
        "b3": jnp.zeros((LAYERS, 2 * DIM)),
        "log_gain": jnp.zeros((LAYERS,)),
    }


def masks():
    return ((jnp.arange(DIM)[None] + jnp.arange(LAYERS)[:, None]) % 2).astype(jnp.float32)


def conditioner(p, x, cond):
    h = jnp.concatenate([x, cond], axis=-1)
    for k in ("1", "2"):
        h = jax.nn.gelu(h @ p["w" + k] + p["b" + k])
    shift, raw = jnp.split(h @ p["w3"] + p["b3"], 2, axis=-1)
    return shift, jnp.tanh(raw) * jnp.exp(p["log_gain"])


def log_prob_one(params, x, cond):
    """Log density of one shower."""

    def layer(x, pm):
        p, mask = pm
        shift, log_s = conditioner(p, x * mask, cond)
        moved = mask == 0
        y = jnp.where(moved, x * jnp.exp(log_s) + shift, x)
        return y, jnp.where(moved, log_s, 0.0).sum()

    z, log_dets = jax.lax.scan(layer, x, (params, masks()))
    return jax.scipy.stats.norm.logpdf(z).sum() + log_dets.sum()


log_prob = jax.vmap(log_prob_one, in_axes=(None, 0, 0))


def nll(params, x, cond, w):
    return -jnp.average(log_prob(params, x, cond), weights=w)


def optimizer():
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3, weight_decay=1e-4))


@jax.jit
def step(params, state, x, cond, w):
    loss, grads = jax.value_and_grad(nll)(params, x, cond, w)
    updates, state = optimizer().update(grads, state, params)
    return optax.apply_updates(params, updates), state, loss


def batch(key, n=16):
    k1, k2, k3 = jax.random.split(key, 3)
    cond = jax.random.uniform(k1, (n, COND))
    x = cond[:, :1] * jax.random.normal(k2, (n, DIM)) + cond[:, 1:]
    return x, cond, jax.random.uniform(k3, (n,), minval=0.5, maxval=1.5)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--dump")
    ap.add_argument("--steps", type=int, default=3)
    args = ap.parse_args()

    key = jax.random.PRNGKey(0)
    params = init_params(key)
    state = optimizer().init(params)
    if args.dump:
        low = step.lower(params, state, *batch(key))
        with open(args.dump, "w") as f:
            f.write(low.compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(args.steps):
        params, state, loss = step(params, state, *batch(jax.random.fold_in(key, i)))
        print(i, float(loss))


if __name__ == "__main__":
    main()
