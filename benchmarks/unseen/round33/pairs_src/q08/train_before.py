"""Continuous-filter network for small molecules: energy and forces, trained with optax."""
import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax

N_ATOMS, N_TYPES, DIM, N_RBF, N_LAYERS = 6, 4, 12, 10, 2
CUTOFF = 5.0


def dense(key, n_in, n_out):
    return {"w": jax.random.normal(key, (n_in, n_out)) / np.sqrt(n_in), "b": jnp.zeros(n_out)}


def init_params(key):
    keys = iter(jax.random.split(key, 32))
    params = {"embed": 0.5 * jax.random.normal(next(keys), (N_TYPES, DIM)), "layers": []}
    for _ in range(N_LAYERS):
        params["layers"].append({
            "filter1": dense(next(keys), N_RBF, DIM), "filter2": dense(next(keys), DIM, DIM),
            "inner": dense(next(keys), DIM, DIM), "outer": dense(next(keys), DIM, DIM)})
    params["read1"] = dense(next(keys), DIM, DIM)
    params["read2"] = dense(next(keys), DIM, 1)
    return params


def ssp(x):
    return jax.nn.softplus(x) - jnp.log(2.0)


def apply(p, x):
    return x @ p["w"] + p["b"]


def energy(params, species, pos):
    """Energy of one molecule: species (n,), pos (n, 3)."""
    diff = pos[:, None, :] - pos[None, :, :]
    eye = jnp.eye(N_ATOMS)
    dist = jnp.sqrt(jnp.sum(diff ** 2, axis=-1) + eye)
    centers = jnp.linspace(0.5, CUTOFF, N_RBF)
    rbf = jnp.exp(-2.0 * (dist[..., None] - centers) ** 2)
    cut = 0.5 * (jnp.cos(jnp.pi * dist / CUTOFF) + 1.0) * (dist < CUTOFF) * (1.0 - eye)
    h = params["embed"][species]
    for lp in params["layers"]:
        filt = apply(lp["filter2"], ssp(apply(lp["filter1"], rbf))) * cut[..., None]
        msg = jnp.einsum("ijd,jd->id", filt, apply(lp["inner"], h))
        h = h + apply(lp["outer"], ssp(msg))
    return jnp.sum(apply(params["read2"], ssp(apply(params["read1"], h))))


def loss_fn(params, batch, w_force):
    e, neg_f = jax.vmap(jax.value_and_grad(energy, argnums=2), in_axes=(None, 0, 0))(
        params, batch["species"], batch["pos"])
    e_err = (e - batch["energy"]) / N_ATOMS
    f_err = -neg_f - batch["forces"]
    return jnp.mean(e_err ** 2) + w_force * jnp.mean(jnp.sum(f_err ** 2, axis=-1))


def make_step(tx, w_force):
    @jax.jit
    def step(params, opt_state, batch):
        loss, grads = jax.value_and_grad(loss_fn)(params, batch, w_force)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss
    return step


def morse_batch(rng, n):
    species = rng.integers(0, N_TYPES, (n, N_ATOMS))
    pos = rng.normal(size=(n, N_ATOMS, 3)) * 1.5

    def morse(p, s):
        d = p[:, None] - p[None]
        r = jnp.sqrt(jnp.sum(d ** 2, -1) + jnp.eye(N_ATOMS))
        r0 = 1.2 + 0.1 * (s[:, None] + s[None])
        v = (1 - jnp.exp(-(r - r0))) ** 2 - 1
        return 0.05 * jnp.sum(v * (1 - jnp.eye(N_ATOMS)))

    e, g = jax.vmap(jax.value_and_grad(morse))(jnp.asarray(pos, jnp.float32), jnp.asarray(species))
    return {"species": jnp.asarray(species, jnp.int32), "pos": jnp.asarray(pos, jnp.float32), "energy": e, "forces": -g}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=10)
    ap.add_argument("--dump", default=None, help="write the unoptimised HLO of the step here")
    args = ap.parse_args()
    rng = np.random.default_rng(0)
    params = init_params(jax.random.PRNGKey(0))
    tx = optax.sgd(1e-3, momentum=0.9)
    opt_state = tx.init(params)
    step = make_step(tx, w_force=10.0)
    for i in range(args.steps):
        batch = morse_batch(rng, 8)
        if i == 0 and args.dump:
            open(args.dump, "w").write(step.lower(params, opt_state, batch).as_text(dialect="hlo"))
        params, opt_state, loss = step(params, opt_state, batch)
        print(i, f"{float(loss):.6f}")


if __name__ == "__main__":
    main()
