"""Deep-sets ranking of candidate crystal structures with a listwise loss.

Candidates of one composition form a list; each candidate is a padded set of
local environments."""
import sys

import jax
import jax.numpy as jnp
import optax

FEAT, HID, LISTS, CANDS, ENVS = 5, 10, 4, 6, 7


def dense_init(key, n_in, n_out):
    w = jax.random.normal(key, (n_in, n_out)) / jnp.sqrt(n_in)
    return {"w": w, "b": jnp.zeros((n_out,))}


def init(key):
    k = jax.random.split(key, 5)
    return {
        "phi1": dense_init(k[0], FEAT, HID),
        "phi2": dense_init(k[1], HID, HID),
        "gate": dense_init(k[2], HID, HID),
        "rho1": dense_init(k[3], 2 * HID, HID),
        "out": {"w": jax.random.normal(k[4], (HID, 1)) * 0.3},
    }


def dense(p, x):
    return x @ p["w"] + p["b"]


def embed(params, x, mask):
    """x [L, C, E, F], mask [L, C, E] -> [L, C, 2H]."""
    h = jax.nn.silu(dense(params["phi1"], x))
    h = jax.nn.silu(dense(params["phi2"], h))
    h = h * jax.nn.sigmoid(dense(params["gate"], h))
    m = mask[..., None]
    mean = jnp.einsum("lceh,lce->lch", h, mask) / jnp.maximum(m.sum(-2), 1.0)
    top = jnp.max(jnp.where(m > 0, h, -1e9), axis=-2)
    return jnp.concatenate([mean, top], axis=-1)


def score(params, x, mask):
    z = jax.nn.silu(dense(params["rho1"], embed(params, x, mask)))
    return jnp.squeeze(z @ params["out"]["w"], -1)


def loss_fn(params, batch):
    present = batch["present"] > 0
    s = jnp.where(present, score(params, batch["x"], batch["mask"]), -1e9)
    t = jnp.where(present, batch["energy"] / -0.2, -1e9)
    target = jax.nn.softmax(t, axis=-1)
    lse = jax.nn.logsumexp(s, axis=-1)
    listwise = lse - jnp.sum(target * jnp.where(present, s, 0.0), axis=-1)
    l2 = sum(jnp.vdot(p["w"], p["w"]) for p in params.values())
    return jnp.mean(listwise) + 1e-4 * l2


tx = optax.adam(2e-3, b1=0.9, b2=0.999, eps=1e-8)


def step(params, state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    updates, state = tx.update(grads, state, params)
    return optax.apply_updates(params, updates), state, loss


def make_batch(key):
    k = jax.random.split(key, 4)
    mask = jax.random.uniform(k[1], (LISTS, CANDS, ENVS)) > 0.3
    present = (jax.random.uniform(k[3], (LISTS, CANDS)) > 0.2).at[:, 0].set(True)
    return {
        "x": jax.random.normal(k[0], (LISTS, CANDS, ENVS, FEAT)),
        "mask": mask.at[..., 0].set(True).astype(jnp.float32),
        "energy": jax.random.uniform(k[2], (LISTS, CANDS)),
        "present": present.astype(jnp.float32),
    }


def main(path):
    key = jax.random.PRNGKey(3)
    params = init(key)
    state = tx.init(params)
    lowered = jax.jit(step).lower(params, state, make_batch(key))
    with open(path, "w") as f:
        f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    fn = jax.jit(step)
    for i in range(6):
        key, sub = jax.random.split(key)
        params, state, loss = fn(params, state, make_batch(sub))
        print(i, float(loss), float(sum(jnp.abs(x).sum() for x in jax.tree.leaves(params))))


if __name__ == "__main__":
    main(sys.argv[1])
