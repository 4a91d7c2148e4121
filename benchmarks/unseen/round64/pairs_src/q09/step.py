"""Energy/force fitting of a small SchNet-like potential, plain jax + optax."""
import jax
import jax.numpy as jnp
import numpy as np
import optax

N_ATOMS, N_SPECIES, DIM, N_RBF, LAYERS = 20, 4, 16, 8, 1
CUTOFF, BOX = 3.0, 8.0
LR = 2e-3


def init_params(key):
    def dense(key, n_in, n_out):
        return {"w": jax.random.normal(key, (n_in, n_out)) / np.sqrt(n_in), "b": jnp.zeros(n_out)}

    keys = iter(jax.random.split(key, 4 * LAYERS + 3))
    params = {"embed": 0.5 * jax.random.normal(next(keys), (N_SPECIES, DIM)), "layers": []}
    for _ in range(LAYERS):
        params["layers"].append({
            "filter1": dense(next(keys), N_RBF, DIM),
            "filter2": dense(next(keys), DIM, DIM),
            "node1": dense(next(keys), DIM, DIM),
            "node2": dense(next(keys), DIM, DIM),
        })
    params["out1"] = dense(next(keys), DIM, DIM)
    params["out2"] = dense(next(keys), DIM, 1)
    return params


def apply_dense(p, x):
    return x @ p["w"] + p["b"]


def ssp(x):
    return jax.nn.softplus(x) - jnp.log(2.0)


def energy(params, pos, species, senders, receivers):
    valid = senders < N_ATOMS
    d = pos[receivers] - pos[senders]
    d = d - BOX * jnp.round(d / BOX)
    r = jnp.sqrt(jnp.where(valid, jnp.sum(d * d, axis=-1), 1.0))
    centers = jnp.linspace(0.0, CUTOFF, N_RBF)
    rbf = jnp.exp(-4.0 * (r[:, None] - centers) ** 2)
    envelope = jnp.where(valid & (r < CUTOFF), 0.5 * (jnp.cos(jnp.pi * r / CUTOFF) + 1.0), 0.0)
    h = params["embed"][species]
    for layer in params["layers"]:
        w = apply_dense(layer["filter2"], ssp(apply_dense(layer["filter1"], rbf))) * envelope[:, None]
        m = apply_dense(layer["node1"], h)[senders] * w
        agg = jax.ops.segment_sum(m, receivers, num_segments=N_ATOMS)
        h = h + apply_dense(layer["node2"], ssp(agg))
    return jnp.sum(apply_dense(params["out2"], ssp(apply_dense(params["out1"], h))))


def loss_fn(params, batch):
    e, g = jax.value_and_grad(energy, argnums=1)(
        params, batch["pos"], batch["species"], batch["senders"], batch["receivers"])
    loss_e = (e - batch["energy"]) ** 2 / N_ATOMS
    loss_f = jnp.mean((g + batch["forces"]) ** 2)
    return 0.1 * loss_e + loss_f, {"e": loss_e, "f": loss_f}


tx = optax.chain(optax.clip_by_global_norm(10.0), optax.adam(optax.exponential_decay(LR, 1000, 0.9)))


@jax.jit
def train_step(params, opt_state, batch):
    (loss, aux), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, {"loss": loss, **aux}


class NeighborList:
    """Edge list padded with index N_ATOMS; grows when a frame has more pairs than it holds."""

    def __init__(self, slack=1.25):
        self.slack = slack
        self.capacity = 0

    def __call__(self, pos):
        d = pos[None] - pos[:, None]
        d -= BOX * np.round(d / BOX)
        near = (np.sum(d * d, axis=-1) < CUTOFF ** 2) & ~np.eye(len(pos), dtype=bool)
        receivers, senders = np.nonzero(near)
        if len(senders) > self.capacity:
            self.capacity = int(self.slack * len(senders))
        pad = self.capacity - len(senders)
        fill = lambda x: np.pad(x, (0, pad), constant_values=N_ATOMS).astype(np.int32)
        return fill(senders), fill(receivers)


def frames(seed=5):
    rng = np.random.default_rng(seed)
    species = rng.integers(0, N_SPECIES, N_ATOMS).astype(np.int32)
    base = rng.uniform(0, BOX, (N_ATOMS, 3))
    for i in range(12):
        pos = (BOX / 2 + (base - BOX / 2) * (1.0 - 0.02 * i) + 0.05 * rng.standard_normal(base.shape)) % BOX
        yield {
            "pos": pos.astype(np.float32),
            "species": species,
            "energy": np.float32(rng.normal()),
            "forces": rng.standard_normal((N_ATOMS, 3)).astype(np.float32),
        }


def run(on_step=None):
    params = init_params(jax.random.PRNGKey(0))
    opt_state = tx.init(params)
    neighbors = NeighborList()
    for i, batch in enumerate(frames()):
        batch["senders"], batch["receivers"] = neighbors(batch["pos"])
        if on_step is not None:
            on_step(i, (params, opt_state, batch))
        params, opt_state, metrics = train_step(params, opt_state, batch)
        print(i, {k: round(float(v), 4) for k, v in metrics.items()}, "programs", train_step._cache_size(), flush=True)


if __name__ == "__main__":
    run()
