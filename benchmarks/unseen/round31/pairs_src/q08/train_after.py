"""Equivariant graph network regressing a toy molecular energy (and its forces)."""
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

ATOMS, SPECIES, HID, LAYERS, BATCH, STEPS = 7, 4, 16, 3, 5, 6


def dense_init(key, n_in, n_out):
    return {"w": jax.random.normal(key, (n_in, n_out)) / np.sqrt(n_in), "b": jnp.zeros(n_out)}


def init(key):
    keys = iter(jax.random.split(key, 2 + 5 * LAYERS))
    params = {"embed": jax.random.normal(next(keys), (SPECIES, HID)) * 0.5, "layers": []}
    for _ in range(LAYERS):
        params["layers"].append({
            "edge1": dense_init(next(keys), 2 * HID + 1, HID),
            "edge2": dense_init(next(keys), HID, HID),
            "coord": dense_init(next(keys), HID, 1),
            "node1": dense_init(next(keys), 2 * HID, HID),
            "node2": dense_init(next(keys), HID, HID),
        })
    params["out"] = dense_init(next(keys), HID, 1)
    return params


def dense(p, x):
    return jnp.einsum("...i,io->...o", x, p["w"]) + p["b"]


def layer(p, h, x, pair):
    """h: (B, N, H), x: (B, N, 3), pair: (B, N, N) with zeros on the diagonal and for padding."""
    diff = x[:, :, None] - x[:, None]
    d2 = jnp.einsum("bijc,bijc->bij", diff, diff)[..., None]
    shape = diff.shape[:3] + (HID,)
    h_i = jnp.broadcast_to(h[:, :, None], shape)
    h_j = jnp.broadcast_to(h[:, None], shape)
    m = jax.nn.silu(dense(p["edge1"], jnp.concatenate([h_i, h_j, d2], axis=-1)))
    m = jax.nn.silu(dense(p["edge2"], m))
    gate = jnp.tanh(dense(p["coord"], m)) / (1.0 + d2)
    x_new = x + jnp.einsum("bij,bijc->bic", pair, gate * diff) / (ATOMS - 1)
    msg = jnp.einsum("bij,bijh->bih", pair, m)
    up = jax.nn.silu(dense(p["node1"], jnp.concatenate([h, msg], axis=-1)))
    return dense(p["node2"], up) + h, x_new


def energies(params, x, species, mask):
    pair = mask[:, :, None] * mask[:, None] * (1.0 - jnp.eye(ATOMS))
    h = jnp.take(params["embed"], species, axis=0, mode="clip")
    for p in params["layers"]:
        h, x = layer(p, h, x, pair)
    return jnp.einsum("bn,bn->b", dense(params["out"], h).squeeze(-1), mask)


def loss_fn(params, batch):
    x, species, mask, e_ref, f_ref = batch
    e, pullback = jax.vjp(lambda pos: energies(params, pos, species, mask), x)
    (g,) = pullback(jnp.ones_like(e))
    atoms = mask.sum(-1)
    e_loss = jnp.square((e - e_ref) / atoms).mean()
    f_loss = jnp.sum(mask[..., None] * jnp.square(f_ref + g)) / (3 * atoms.sum())
    return e_loss + 10.0 * f_loss, (e_loss, f_loss)


tx = optax.chain(
    optax.clip_by_global_norm(5.0),
    optax.adamw(optax.exponential_decay(2e-3, 50, 0.9), b2=0.99, weight_decay=1e-4),
)


@jax.jit
def step(params, opt_state, batch):
    (loss, parts), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss, parts


def reference_energy(x, mask):
    d2 = ((x[:, None] - x[None]) ** 2).sum(-1) + np.eye(ATOMS)
    pair = (mask[:, None] * mask[None]) * (1 - np.eye(ATOMS))
    e = 0.5 * (pair * np.exp(-d2)).sum()
    f = (2 * pair * np.exp(-d2))[..., None] * (x[:, None] - x[None])
    return e, f.sum(1)


def batches(seed=0):
    rng = np.random.default_rng(seed)
    while True:
        x = rng.normal(size=(BATCH, ATOMS, 3))
        count = rng.integers(4, ATOMS + 1, BATCH)
        mask = (np.arange(ATOMS)[None] < count[:, None]).astype(np.float32)
        species = rng.integers(0, SPECIES, (BATCH, ATOMS))
        ef = [reference_energy(a, m) for a, m in zip(x, mask)]
        yield (jnp.asarray(x, jnp.float32), jnp.asarray(species, jnp.int32), jnp.asarray(mask),
               jnp.asarray([e for e, _ in ef], jnp.float32), jnp.asarray(np.stack([f for _, f in ef]), jnp.float32))


def main(dump=None):
    params = init(jax.random.PRNGKey(0))
    opt_state = tx.init(params)
    losses = []
    for i, batch in zip(range(STEPS), batches()):
        if i == 0 and dump:
            with open(dump, "w") as f:
                f.write(step.lower(params, opt_state, batch).as_text(dialect="hlo"))
        params, opt_state, loss, parts = step(params, opt_state, batch)
        losses.append(float(loss))
    return params, losses


if __name__ == "__main__":
    print(" ".join(f"{v:.6f}" for v in main(*sys.argv[1:2])[1]))
