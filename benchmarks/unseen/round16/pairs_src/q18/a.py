"""Molecular property regression: message passing over padded graphs (dictionary parameters)."""
import jax
import jax.numpy as jnp
import numpy as np

ATOMS, NODES, D, BOND = 6, 9, 12, 3


def init(seed):
    r = np.random.default_rng(seed)
    g = lambda *s: jnp.asarray(r.normal(size=s) / np.sqrt(s[0]), jnp.float32)
    return {
        "embed": g(ATOMS, D),
        "rounds": [{"message": g(BOND, D, D), "self": g(D, D), "bias": jnp.zeros(D)} for _ in range(2)],
        "readout": {"hidden": g(D, D), "hidden_bias": jnp.zeros(D), "value": g(D, 1)},
    }


def energy(params, atoms, bonds, mask):
    h = params["embed"][atoms] * mask[..., None]
    for r in params["rounds"]:
        incoming = jnp.einsum("bkij,bjd,kde->bie", bonds, h, r["message"])
        own = h @ r["self"]
        h = jnp.tanh(incoming + own + r["bias"]) * mask[..., None]
    pooled = h.sum(1) / mask.sum(1, keepdims=True)
    z = jnp.tanh(pooled @ params["readout"]["hidden"] + params["readout"]["hidden_bias"])
    return (z @ params["readout"]["value"])[:, 0]


def loss_fn(params, batch):
    err = energy(params, batch["atoms"], batch["bonds"], batch["mask"]) - batch["target"]
    return jnp.mean(jnp.log(jnp.cosh(err)))


@jax.jit
def train_step(params, moments, batch, rate):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    moments = jax.tree.map(lambda m, g: 0.9 * m + g, moments, grads)
    params = jax.tree.map(lambda p, m: p - rate * m, params, moments)
    return params, moments, loss


def molecules(rng, n=8):
    size = rng.integers(4, NODES + 1, n)
    mask = (np.arange(NODES)[None] < size[:, None]).astype(np.float32)
    bonds = (rng.random((n, BOND, NODES, NODES)) < 0.15).astype(np.float32)
    bonds = np.maximum(bonds, bonds.swapaxes(2, 3)) * mask[:, None, :, None] * mask[:, None, None]
    atoms = rng.integers(0, ATOMS, (n, NODES))
    target = (atoms * mask).sum(1) / 20
    return {"atoms": jnp.asarray(atoms, jnp.int32), "bonds": jnp.asarray(bonds), "mask": jnp.asarray(mask),
            "target": jnp.asarray(target, jnp.float32)}


def main():
    params = init(0)
    moments = jax.tree.map(jnp.zeros_like, params)
    rng = np.random.default_rng(1)
    for step in range(30):
        params, moments, loss = train_step(params, moments, molecules(rng), 0.01)
        if step % 10 == 9:
            print(step, float(loss))


if __name__ == "__main__":
    main()
