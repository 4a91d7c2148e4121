"""Interatomic potential: continuous filter convolutions on padded clusters,
trained on energies and forces together."""
import sys

import jax
import jax.numpy as jnp
import optax

CLUSTERS = 3
ATOMS = 5
SPECIES = 4
DIM = 8
RBF = 6
CUTOFF = 4.0


def dense(key, n_in, n_out):
    return {"w": jax.random.normal(key, (n_in, n_out)) / n_in ** 0.5, "b": jnp.zeros(n_out)}


def init_params(key):
    k = jax.random.split(key, 8)
    return {
        "embed": jax.random.normal(k[0], (SPECIES, DIM)) * 0.5,
        "filter1": dense(k[1], RBF, DIM),
        "inter": dense(k[2], DIM, DIM),
        "filter2": dense(k[3], RBF, DIM),
        "inter2": dense(k[4], DIM, DIM),
        "out1": dense(k[5], DIM, DIM),
        "out2": dense(k[6], DIM, 1),
        "shift": jnp.zeros(SPECIES),
    }


def apply(p, x):
    return x @ p["w"] + p["b"]


def ssp(x):
    return jax.nn.softplus(x) - jnp.log(2.0)


def energy(params, pos, species, mask):
    """one cluster: pos [atoms, 3], species [atoms], mask [atoms]"""
    pair = mask[:, None] * mask[None, :] * (1.0 - jnp.eye(ATOMS))
    disp = pos[:, None] - pos[None, :]
    d2 = (disp ** 2).sum(-1)
    dist = jnp.sqrt(jnp.where(pair > 0, d2, 1.0))
    centers = jnp.linspace(0.5, CUTOFF, RBF)
    rbf = jnp.exp(-2.0 * (dist[..., None] - centers) ** 2)
    cut = 0.5 * (jnp.cos(jnp.pi * dist / CUTOFF) + 1.0) * (dist < CUTOFF) * pair
    h = params["embed"][species]
    for f, i in (("filter1", "inter"), ("filter2", "inter2")):
        w = ssp(apply(params[f], rbf)) * cut[..., None]
        msg = jnp.einsum("ijc,jc->ic", w, h)
        h = h + ssp(apply(params[i], msg))
    e = apply(params["out2"], ssp(apply(params["out1"], h)))[:, 0]
    return ((e + params["shift"][species]) * mask).sum()


def energy_and_forces(params, pos, species, mask):
    e, g = jax.value_and_grad(energy, argnums=1)(params, pos, species, mask)
    return e, -g


def loss_fn(params, batch):
    e, f = jax.vmap(energy_and_forces, (None, 0, 0, 0))(
        params, batch["pos"], batch["species"], batch["mask"])
    mask = batch["mask"]
    n_atoms = mask.sum(axis=1)
    e_loss = (((e - batch["energy"]) / n_atoms) ** 2).mean()
    f_err = ((f - batch["forces"]) ** 2).sum(-1) * mask
    f_loss = f_err.sum() / (3.0 * n_atoms.sum())
    return e_loss + 50.0 * f_loss, {"energy": e_loss, "forces": f_loss}


optimizer = optax.adabelief(1e-3)


def train_step(params, opt_state, ema, batch):
    (loss, parts), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    ema = optax.incremental_update(params, ema, 0.01)
    return params, opt_state, ema, loss, parts


def make_batch(key):
    k = jax.random.split(key, 5)
    size = jax.random.randint(k[0], (CLUSTERS, 1), 2, ATOMS + 1)
    return {
        "pos": jax.random.normal(k[1], (CLUSTERS, ATOMS, 3)) * 2.0,
        "species": jax.random.randint(k[2], (CLUSTERS, ATOMS), 0, SPECIES),
        "mask": (jnp.arange(ATOMS)[None] < size).astype(jnp.float32),
        "energy": jax.random.normal(k[3], (CLUSTERS,)),
        "forces": jax.random.normal(k[4], (CLUSTERS, ATOMS, 3)),
    }


def main(path=None, steps=3):
    params = init_params(jax.random.key(0))
    opt_state = optimizer.init(params)
    ema = jax.tree.map(jnp.copy, params)
    step = jax.jit(train_step)
    if path:
        low = step.lower(params, opt_state, ema, make_batch(jax.random.key(1)))
        with open(path, "w") as f:
            f.write(low.compiler_ir("hlo").as_hlo_module().to_string())
    losses = []
    for i in range(steps):
        params, opt_state, ema, loss, _ = step(params, opt_state, ema, make_batch(jax.random.key(i + 1)))
        losses.append(float(loss))
    return losses


if __name__ == "__main__":
    print(main(sys.argv[1] if len(sys.argv) > 1 else None))
