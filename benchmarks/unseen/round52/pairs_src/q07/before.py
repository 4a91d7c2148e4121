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
    return jnp.dot(x, p["w"]) + p["b"]


def shifted_softplus(x):
    return jax.nn.softplus(x) - jnp.log(2.0)


def predict(params, graph):
    """One crystal: species (N,), node_mask (N,), vec (E, 3), src (E,), dst (E,), edge_mask (E,)."""
    dist = jnp.sqrt(jnp.sum(graph["vec"] ** 2, axis=-1) + 1e-12)
    centers = jnp.linspace(0.0, CUTOFF, RBF)
    rbf = jnp.exp(-2.0 * (dist[:, None] - centers[None, :]) ** 2)
    envelope = jnp.where(dist < CUTOFF, 0.5 * (jnp.cos(jnp.pi * dist / CUTOFF) + 1.0), 0.0)
    envelope = envelope * graph["edge_mask"]

    h = params["embed"][graph["species"]]
    for i in range(LAYERS):
        filt = shifted_softplus(linear(params[f"filter_{i}"], rbf)) * envelope[:, None]
        msg = h[graph["src"]] * filt
        agg = jax.ops.segment_sum(msg, graph["dst"], num_segments=NODES)
        h = h + shifted_softplus(linear(params[f"update_{i}"], jnp.concatenate([h, agg], axis=-1)))

    site = linear(params["out"], shifted_softplus(linear(params["readout"], h)))[:, 0]
    mask = graph["node_mask"]
    return jnp.sum(site * mask) / jnp.sum(mask)


def loss_fn(params, batch):
    pred = jax.vmap(predict, in_axes=(None, 0))(params, batch["graph"])
    err = pred - batch["gap"]
    a = jnp.abs(err)
    huber = jnp.where(a <= DELTA, 0.5 * err ** 2, DELTA * (a - 0.5 * DELTA))
    loss = jnp.sum(huber * batch["weight"]) / jnp.sum(batch["weight"])
    return loss, jnp.mean(a)


tx = optax.adamw(1e-3, b2=0.99, weight_decay=1e-3)


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
