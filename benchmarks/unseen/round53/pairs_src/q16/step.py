"""Force matching: a small SchNet-like potential on argon snapshots (neighbour lists)."""
import jax
import jax.numpy as jnp
import numpy as np
import optax

CUTOFF, SKIN = 2.5, 0.2
N_RBF, FEAT = 12, 16


class NeighborList:
    """Dense neighbour lists of a batch of frames; index n is the padding."""

    def __init__(self, cutoff, margin=1.1):
        self.cutoff, self.margin = cutoff, margin
        self.capacity = 0

    def update(self, positions, box):
        n = positions.shape[1]
        d = positions[:, :, None] - positions[:, None]
        d -= box * np.round(d / box)
        r2 = (d ** 2).sum(-1) + 1e6 * np.eye(n)
        near = r2 < self.cutoff ** 2
        most = int(near.sum(-1).max())
        if most > self.capacity:
            self.capacity = min(n - 1, int(np.ceil(most * self.margin)))
        order = np.argsort(~near, axis=-1, kind="stable")[..., :self.capacity]
        keep = np.take_along_axis(near, order, -1)
        return np.where(keep, order, n).astype(np.int32)


def init_params(key):
    k = iter(jax.random.split(key, 12))

    def dense(i, o):
        return {"w": jax.random.normal(next(k), (i, o)) * i ** -0.5, "b": jnp.zeros(o)}

    layer = lambda: {"filter1": dense(N_RBF, FEAT), "filter2": dense(FEAT, FEAT),
                     "mix": dense(FEAT, FEAT)}
    return {"embed": jax.random.normal(next(k), (FEAT,)),
            "layers": [layer(), layer()],
            "read1": dense(FEAT, FEAT), "read2": dense(FEAT, 1)}


def apply(p, x):
    return x @ p["w"] + p["b"]


def ssp(x):
    return jax.nn.softplus(x) - np.log(2.0)


def energy(params, pos, nbrs, box):
    n = pos.shape[0]
    mask = nbrs < n
    idx = jnp.where(mask, nbrs, 0)
    d = pos[:, None] - pos[idx]
    d = d - box * jnp.round(d / box)
    r2 = jnp.sum(d ** 2, -1)
    r = jnp.sqrt(jnp.where(mask, r2, 1.0))
    envelope = jnp.where(mask & (r < CUTOFF), 0.5 * (jnp.cos(np.pi * r / CUTOFF) + 1), 0.0)
    centers = jnp.linspace(0.7, CUTOFF, N_RBF)
    rbf = jnp.exp(-8.0 * (r[..., None] - centers) ** 2)
    h = jnp.tile(params["embed"], (n, 1))
    for layer in params["layers"]:
        w = apply(layer["filter2"], ssp(apply(layer["filter1"], rbf))) * envelope[..., None]
        h = h + apply(layer["mix"], jnp.sum(w * h[idx], 1))
    return jnp.sum(apply(params["read2"], ssp(apply(params["read1"], h))))


def loss_fn(params, batch):
    e, g = jax.vmap(jax.value_and_grad(energy, argnums=1), (None, 0, 0, None))(
        params, batch["pos"], batch["nbrs"], batch["box"])
    n = batch["pos"].shape[1]
    e_loss = jnp.mean(((e - batch["energy"]) / n) ** 2)
    f_loss = jnp.mean((-g - batch["force"]) ** 2)
    return e_loss + 10.0 * f_loss, (e_loss, f_loss)


tx = optax.adam(optax.exponential_decay(1e-3, 1000, 0.9))


@jax.jit
def train_step(params, opt_state, batch):
    (loss, parts), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss, parts


def snapshots(steps, batch=3, side=3, seed=0):
    """Frames of a melting run."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(*[np.arange(side)] * 3), -1).reshape(-1, 3) * 1.7
    box = np.float32(side * 1.7)
    for i in range(steps):
        noise = rng.standard_normal((batch, *grid.shape)) * (0.05 + 0.06 * i)
        pos = (grid + noise).astype(np.float32)
        yield pos, box, rng.standard_normal(batch).astype(np.float32), \
            rng.standard_normal(pos.shape).astype(np.float32)


def main(steps=5):
    params = init_params(jax.random.PRNGKey(0))
    opt_state = tx.init(params)
    neighbors = NeighborList(CUTOFF + SKIN)
    for step, (pos, box, e, f) in enumerate(snapshots(steps)):
        batch = {"pos": pos, "nbrs": neighbors.update(pos, box), "box": box, "energy": e, "force": f}
        params, opt_state, loss, _ = train_step(params, opt_state, batch)
        print(step, float(loss))


if __name__ == "__main__":
    main()
