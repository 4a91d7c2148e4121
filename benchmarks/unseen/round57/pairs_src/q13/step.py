"""Burgers' equation with a small MLP, gradient-norm balanced loss terms."""
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

NU = 0.01 / np.pi
TERMS = ("pde", "ic", "bc")


def init_mlp(key, sizes):
    params = []
    for k, n_in, n_out in zip(jax.random.split(key, len(sizes) - 1), sizes[:-1], sizes[1:]):
        lim = np.sqrt(6.0 / (n_in + n_out))
        params.append({"w": jax.random.uniform(k, (n_in, n_out), minval=-lim, maxval=lim), "b": jnp.zeros(n_out)})
    return params


def u_fn(params, t, x):
    h = jnp.stack([t, x])
    for layer in params[:-1]:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    return (h @ params[-1]["w"] + params[-1]["b"])[0]


def residual(params, t, x):
    u = u_fn(params, t, x)
    u_t, u_x = jax.grad(u_fn, (1, 2))(params, t, x)
    u_xx = jax.grad(lambda z: jax.grad(u_fn, 2)(params, t, z))(x)
    return u_t + u * u_x - NU * u_xx


def loss_terms(params, batch):
    r = jax.vmap(residual, (None, 0, 0))(params, batch["t"], batch["x"])
    u0 = jax.vmap(u_fn, (None, None, 0))(params, 0.0, batch["x0"])
    ub = jax.vmap(u_fn, (None, 0, 0))(params, batch["tb"], batch["xb"])
    return {
        "pde": jnp.mean(r ** 2),
        "ic": jnp.mean((u0 + jnp.sin(jnp.pi * batch["x0"])) ** 2),
        "bc": jnp.mean(ub ** 2),
    }


def global_norm(tree):
    return jnp.sqrt(sum(jnp.sum(x ** 2) for x in jax.tree_util.tree_leaves(tree)))


def make_step(tx, alpha=0.9):
    @jax.jit
    def train_step(params, opt_state, weights, batch):
        grads = {k: jax.grad(lambda p, k=k: loss_terms(p, batch)[k])(params) for k in TERMS}
        norms = {k: global_norm(g) for k, g in grads.items()}
        mean = sum(norms.values()) / len(TERMS)
        total = jax.tree_util.tree_map(
            lambda *g: sum(weights[k] * gi for k, gi in zip(TERMS, g)), *(grads[k] for k in TERMS)
        )
        updates, opt_state = tx.update(total, opt_state, params)
        params = optax.apply_updates(params, updates)
        weights = {k: alpha * weights[k] + (1 - alpha) * mean / (norms[k] + 1e-8) for k in TERMS}
        return params, opt_state, weights, loss_terms(params, batch)

    return train_step


def sample(rng, n=32, m=8):
    f = lambda lo, hi, k: rng.uniform(lo, hi, k).astype(np.float32)
    return {
        "t": f(0, 1, n), "x": f(-1, 1, n), "x0": f(-1, 1, m), "tb": f(0, 1, m),
        "xb": rng.choice(np.float32([-1, 1]), m),
    }


def main(n_steps=4, dump=None):
    params = init_mlp(jax.random.PRNGKey(0), [2, 12, 1])
    tx = optax.adam(optax.exponential_decay(1e-3, 500, 0.9))
    opt_state = tx.init(params)
    weights = {"pde": jnp.asarray(1), "ic": jnp.asarray(100), "bc": jnp.asarray(10)}
    train_step = make_step(tx)
    rng = np.random.default_rng(0)
    for i in range(n_steps):
        batch = sample(rng)
        if dump:
            with open(os.path.join(dump, f"call{i}.hlo"), "w") as f:
                f.write(train_step.lower(params, opt_state, weights, batch).compiler_ir("hlo").as_hlo_text())
        params, opt_state, weights, terms = train_step(params, opt_state, weights, batch)
        print(i, {k: f"{float(v):.4f}" for k, v in terms.items()}, train_step._cache_size())


if __name__ == "__main__":
    main(dump=sys.argv[1] if len(sys.argv) > 1 else None)
