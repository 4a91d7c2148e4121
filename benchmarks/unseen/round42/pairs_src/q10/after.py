"""SchNet-like interatomic potential, trained on energies and forces of padded molecules (flax, optax)."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

SPECIES, ATOMS, BATCH, FEAT, RBF, CUTOFF = 4, 5, 3, 8, 6, 4.0


def shifted_softplus(x):
    return jax.nn.softplus(x) - jnp.log(2.0)


def cosine_cutoff(r):
    return jnp.where(r < CUTOFF, 0.5 * (jnp.cos(jnp.pi * r / CUTOFF) + 1.0), 0.0)


class Interaction(nn.Module):
    @nn.compact
    def __call__(self, x, rbf, cut):
        # x: [N, F], rbf: [N, N, R], cut: [N, N]
        w = nn.Dense(FEAT)(shifted_softplus(nn.Dense(FEAT)(rbf)))
        w = w * cut[..., None]
        y = nn.Dense(FEAT, use_bias=False)(x)
        msg = jnp.einsum("ijf,jf->if", w, y)
        return x + nn.Dense(FEAT)(shifted_softplus(msg))


class Potential(nn.Module):
    @nn.compact
    def __call__(self, z, pos, mask):
        diff = pos[:, None, :] - pos[None, :, :]
        pair = mask[:, None] * mask[None, :] * (1.0 - jnp.eye(ATOMS))
        r = jnp.sqrt(jnp.where(pair > 0, jnp.sum(diff * diff, axis=-1), 1.0))
        centers = jnp.linspace(0.5, CUTOFF, RBF)
        rbf = jnp.exp(-2.0 * (r[..., None] - centers) ** 2)
        cut = cosine_cutoff(r) * pair
        x = nn.Embed(SPECIES, FEAT)(z)
        x = Interaction()(x, rbf, cut)
        atom_e = nn.Dense(1)(shifted_softplus(nn.Dense(FEAT)(x)))[:, 0]
        atom_e = atom_e + self.param("shift", nn.initializers.zeros, (SPECIES,))[z]
        return jnp.sum(atom_e)


model = Potential()
tx = optax.chain(optax.zero_nans(), optax.adabelief(1e-3), optax.ema(0.99))


def energy_forces(params, z, pos, mask):
    def energy(p):
        return model.apply(params, z, p, mask)
    e, g = jax.value_and_grad(energy)(pos)
    return e, -g


def loss_fn(params, batch, w_force=10.0):
    e, f = jax.vmap(energy_forces, in_axes=(None, 0, 0, 0))(
        params, batch["z"], batch["pos"], batch["mask"])
    n_atoms = jnp.sum(batch["mask"], axis=1)
    e_loss = jnp.mean(((e - batch["energy"]) / n_atoms) ** 2)
    f_err = jnp.sum((f - batch["forces"]) ** 2, axis=-1) * batch["mask"]
    f_loss = jnp.sum(f_err) / (3.0 * jnp.sum(n_atoms))
    return e_loss + w_force * f_loss, (e_loss, f_loss)


def step(params, opt_state, batch):
    (loss, parts), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss, parts


def main():
    rng = np.random.default_rng(9)

    def sample():
        n = rng.integers(3, ATOMS + 1, size=BATCH)
        f = lambda *s: rng.normal(size=s).astype(np.float32)
        mask = (np.arange(ATOMS)[None] < n[:, None]).astype(np.float32)
        return {"z": rng.integers(0, SPECIES, (BATCH, ATOMS)).astype(np.int32),
                "pos": f(BATCH, ATOMS, 3) * 1.5, "mask": mask,
                "energy": f(BATCH), "forces": f(BATCH, ATOMS, 3) * mask[..., None]}

    b = sample()
    params = model.init(jax.random.PRNGKey(0), b["z"][0], b["pos"][0], b["mask"][0])
    opt_state = tx.init(params)
    fn = jax.jit(step)
    lowered = fn.lower(params, opt_state, b)
    open(sys.argv[1], "w").write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(4):
        params, opt_state, loss, parts = fn(params, opt_state, sample())
        print(i, float(loss), [float(p) for p in parts])


main()
