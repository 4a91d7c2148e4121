"""Deep-sets ranking of candidate crystal structures with a listwise loss.

Candidates of one composition form a list; each candidate is a padded set of
local environments."""
import sys

import jax
import jax.numpy as jnp

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
    """One candidate: x [E, F], mask [E]."""
    h = jax.nn.silu(dense(params["phi1"], x))
    h = jax.nn.silu(dense(params["phi2"], h))
    h = h * jax.nn.sigmoid(dense(params["gate"], h))
    mean = (h * mask[:, None]).sum(0) / jnp.maximum(mask.sum(), 1.0)
    top = jnp.where(mask[:, None] > 0, h, -1e9).max(0)
    return jnp.concatenate([mean, top])


def score(params, x, mask):
    z = embed(params, x, mask)
    return (jax.nn.silu(dense(params["rho1"], z)) @ params["out"]["w"])[0]


def list_loss(params, x, mask, energy, present):
    """One list: x [C, E, F]; energy, present [C]."""
    s = jax.vmap(score, in_axes=(None, 0, 0))(params, x, mask)
    s = jnp.where(present > 0, s, -1e9)
    t = jnp.where(present > 0, -energy / 0.2, -1e9)
    target = jax.nn.softmax(t)
    logp = jax.nn.log_softmax(s)
    return -(target * jnp.where(present > 0, logp, 0.0)).sum()


def loss_fn(params, batch):
    per_list = jax.vmap(list_loss, in_axes=(None, 0, 0, 0, 0))(
        params, batch["x"], batch["mask"], batch["energy"], batch["present"])
    l2 = sum((p["w"] ** 2).sum() for p in params.values())
    return per_list.mean() + 1e-4 * l2


def adam(params, grads, state, lr=2e-3, b1=0.9, b2=0.999, eps=1e-8):
    t = state["count"] + 1
    m = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state["mu"], grads)
    v = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state["nu"], grads)
    tf = t.astype(jnp.float32)
    c1, c2 = 1 - b1 ** tf, 1 - b2 ** tf
    params = jax.tree.map(
        lambda p, m, v: p - lr * (m / c1) / (jnp.sqrt(v / c2) + eps), params, m, v)
    return params, {"count": t, "mu": m, "nu": v}


def step(params, state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    params, state = adam(params, grads, state)
    return params, state, loss


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
    zeros = jax.tree.map(jnp.zeros_like, params)
    state = {"count": jnp.zeros((), jnp.int32), "mu": zeros, "nu": zeros}
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
