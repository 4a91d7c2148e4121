"""Band gaps of crystals: continuous-filter graph network on padded neighbour lists."""
import sys

import jax
import jax.numpy as jnp
import optax

SPECIES, DIM, RBF, LAYERS = 7, 10, 8, 2
NODES, EDGES, BATCH = 6, 14, 3
CUTOFF, DELTA = 5.0, 0.4


def linear_init(key, n_in, n_out):
    return {"w": jax.random.normal(key, (n_in, n_out)) * (2.0 / (n_in + n_out)) ** 0.5,
            "b": jnp.zeros((n_out,))}


def init_params(key):
    keys = jax.random.split(key, 3 + 2 * LAYERS)
    params = {"embed": jax.random.normal(keys[0], (SPECIES, DIM)) * 0.5,
              "readout": linear_init(keys[1], DIM, DIM),
              "out": linear_init(keys[2], DIM, 1)}
    for i in range(LAYERS):
        params[f"filter_{i}"] = linear_init(keys[3 + 2 * i], RBF, DIM)
        params[f"update_{i}"] = linear_init(keys[4 + 2 * i], 2 * DIM, DIM)
    return params


def linear(p, x):
    return jnp.einsum("...i,ij->...j", x, p["w"]) + p["b"]


def shifted_softplus(x):
    return jnp.logaddexp(x, 0.0) - jnp.log(2.0)


def radial_basis(vec, edge_mask):
    """Distances (..., E, 3) as a Gaussian basis (..., E, RBF) with its smooth cutoff (..., E, 1)."""
    dist = jnp.sqrt(jnp.einsum("...d,...d->...", vec, vec) + 1e-12)[..., None]
    rbf = jnp.exp(-2.0 * jnp.square(dist - jnp.linspace(0.0, CUTOFF, RBF)))
    envelope = jnp.where(dist < CUTOFF, 0.5 * jnp.cos(jnp.pi / CUTOFF * dist) + 0.5, 0.0)
    return rbf, edge_mask[..., None] * envelope


def predict(params, graph):
    """A batch of crystals: species (B, N), node_mask (B, N), vec (B, E, 3), src / dst / edge_mask (B, E)."""
    rbf, envelope = radial_basis(graph["vec"], graph["edge_mask"])
    src, dst = graph["src"][..., None], graph["dst"]
    rows = jnp.arange(dst.shape[0])[:, None]

    h = params["embed"][graph["species"]]
    for i in range(LAYERS):
        filt = envelope * shifted_softplus(linear(params[f"filter_{i}"], rbf))
        msg = jnp.take_along_axis(h, src, axis=1) * filt
        agg = jnp.zeros_like(h).at[rows, dst].add(msg)
        h = h + shifted_softplus(linear(params[f"update_{i}"], jnp.concatenate([h, agg], axis=-1)))

    site = linear(params["out"], shifted_softplus(linear(params["readout"], h))).squeeze(-1)
    return jnp.average(site, axis=-1, weights=graph["node_mask"])


def loss_fn(params, batch):
    err = predict(params, batch["graph"]) - batch["gap"]
    loss = jnp.average(optax.huber_loss(err, delta=DELTA), weights=batch["weight"])
    return loss, jnp.mean(jnp.abs(err))


tx = optax.chain(
    optax.scale_by_adam(b2=0.99),
    optax.add_decayed_weights(1e-3),
    optax.scale_by_learning_rate(1e-3),
)


def train_step(params, opt_state, batch):
    (loss, mae), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, loss, mae


def make_batch(seed):
    ks = jax.random.split(jax.random.key(seed), 8)
    n_edges = jax.random.randint(ks[0], (BATCH, 1), 6, EDGES + 1)
    n_nodes = jax.random.randint(ks[1], (BATCH, 1), 3, NODES + 1)
    return {
        "graph": {
            "species": jax.random.randint(ks[2], (BATCH, NODES), 0, SPECIES),
            "node_mask": (jnp.arange(NODES)[None] < n_nodes).astype(jnp.float32),
            "vec": jax.random.normal(ks[3], (BATCH, EDGES, 3)) * 2.0,
            "src": jax.random.randint(ks[4], (BATCH, EDGES), 0, NODES),
            "dst": jax.random.randint(ks[5], (BATCH, EDGES), 0, NODES),
            "edge_mask": (jnp.arange(EDGES)[None] < n_edges).astype(jnp.float32),
        },
        "gap": jax.random.uniform(ks[6], (BATCH,)) * 3.0,
        "weight": jax.random.uniform(ks[7], (BATCH,)) + 0.5,
    }


def main(dump=None, steps=4):
    params = init_params(jax.random.key(1))
    opt_state = tx.init(params)
    step = jax.jit(train_step)
    if dump:
        lowered = step.lower(params, opt_state, make_batch(0))
        with open(dump, "w") as f:
            f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    losses = []
    for i in range(steps):
        params, opt_state, loss, mae = step(params, opt_state, make_batch(i))
        losses.append((float(loss), float(mae)))
    return losses, params


if __name__ == "__main__":
    print(main(sys.argv[1] if len(sys.argv) > 1 else None)[0])
