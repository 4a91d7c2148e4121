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
    return x @ p["w"] + p["b"]


def layer(p, h, x, mask):
    def edge(h_i, h_j, x_i, x_j):
        diff = x_i - x_j
        d2 = jnp.sum(diff ** 2, keepdims=True)
        m = jax.nn.silu(dense(p["edge1"], jnp.concatenate([h_i, h_j, d2])))
        m = jax.nn.silu(dense(p["edge2"], m))
        return m, diff * jnp.tanh(dense(p["coord"], m)) / (1.0 + d2)

    def node(i, h_i, x_i):
        m, shift = jax.vmap(edge, in_axes=(None, 0, None, 0))(h_i, h, x_i, x)
        use = mask * mask[i] * (jnp.arange(ATOMS) != i)
        m_i = jnp.sum(m * use[:, None], axis=0)
        x_new = x_i + jnp.sum(shift * use[:, None], axis=0) / (ATOMS - 1)
        up = jax.nn.silu(dense(p["node1"], jnp.concatenate([h_i, m_i])))
        return h_i + dense(p["node2"], up), x_new

    return jax.vmap(node)(jnp.arange(ATOMS), h, x)


def energy(params, x, species, mask):
    h = params["embed"][species]
    for p in params["layers"]:
        h, x = layer(p, h, x, mask)
    per_atom = dense(params["out"], h)[:, 0]
    return jnp.sum(per_atom * mask)


def loss_fn(params, batch):
    x, species, mask, e_ref, f_ref = batch
    e, g = jax.vmap(jax.value_and_grad(energy, argnums=1), in_axes=(None, 0, 0, 0))(params, x, species, mask)
    n = jnp.sum(mask, axis=1)
    e_loss = jnp.mean(((e - e_ref) / n) ** 2)
    f_err = jnp.sum((-g - f_ref) ** 2, axis=-1) * mask
    f_loss = jnp.sum(f_err) / (3 * jnp.sum(mask))
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
