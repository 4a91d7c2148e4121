"""Continuous-filter network for small molecules: energy and forces, trained with optax."""
import argparse
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

N_ATOMS, N_TYPES, DIM, N_RBF, N_LAYERS = 6, 4, 12, 10, 2
CUTOFF = 5.0


class Dense(NamedTuple):
    kernel: jax.Array
    bias: jax.Array

    def __call__(self, x):
        return jnp.dot(x, self.kernel) + self.bias


class Interaction(NamedTuple):
    inner: Dense
    outer: Dense
    filter_in: Dense
    filter_out: Dense


class Net(NamedTuple):
    readout: tuple
    interactions: tuple
    species_table: jax.Array


def init_params(key):
    keys = iter(jax.random.split(key, 32))

    def dense(n_in, n_out):
        return Dense(jax.random.normal(next(keys), (n_in, n_out)) / np.sqrt(n_in), jnp.zeros(n_out))

    table = 0.5 * jax.random.normal(next(keys), (N_TYPES, DIM))
    blocks = []
    for _ in range(N_LAYERS):
        f1, f2 = dense(N_RBF, DIM), dense(DIM, DIM)
        blocks.append(Interaction(filter_in=f1, filter_out=f2, inner=dense(DIM, DIM), outer=dense(DIM, DIM)))
    return Net((dense(DIM, DIM), dense(DIM, 1)), tuple(blocks), table)


def ssp(x):
    return jax.nn.softplus(x) - jnp.log(2.0)


def batch_energy(net, species, pos):
    """Energies of a batch: species (b, n), pos (b, n, 3) -> (b,)."""
    off_diag = 1.0 - jnp.eye(N_ATOMS)
    h = net.species_table[species]
    rel = jnp.expand_dims(pos, 2) - jnp.expand_dims(pos, 1)
    r = jnp.sqrt(jnp.square(rel).sum(-1) + (1.0 - off_diag))
    window = jnp.where(r < CUTOFF, 0.5 + 0.5 * jnp.cos(r * (jnp.pi / CUTOFF)), 0.0)
    window = window * off_diag
    mu = jnp.linspace(0.5, CUTOFF, N_RBF)
    basis = jnp.exp(-2.0 * jnp.square(r[..., None] - mu))
    for block in net.interactions:
        sent = block.inner(h)
        w = block.filter_out(ssp(block.filter_in(basis)))
        w = w * window[..., None]
        received = (w * sent[:, None, :, :]).sum(axis=2)
        h = block.outer(ssp(received)) + h
    hidden, final = net.readout
    return final(ssp(hidden(h))).sum(axis=(1, 2))


def loss_fn(net, batch, w_force):
    def total(pos):
        e = batch_energy(net, batch["species"], pos)
        return e.sum(), e

    grad_pos, e = jax.grad(total, has_aux=True)(batch["pos"])
    per_atom = (batch["energy"] - e) / N_ATOMS
    force_term = jnp.square(grad_pos + batch["forces"]).sum(-1).mean()
    return w_force * force_term + jnp.square(per_atom).mean()


def make_step(tx, w_force):
    grad_fn = jax.value_and_grad(lambda net, batch: loss_fn(net, batch, w_force))

    def step(net, opt_state, batch):
        loss, grads = grad_fn(net, batch)
        updates, opt_state = tx.update(grads, opt_state)
        net = jax.tree.map(jnp.add, net, updates)
        return net, opt_state, loss
    return jax.jit(step)


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
