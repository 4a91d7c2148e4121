"""Graph network regression on random molecules, padded to a fixed size."""
import jax
import jax.numpy as jnp
import numpy as np
import optax

NODES, EDGES, FEAT, HID, ROUNDS, GRAPHS = 40, 80, 6, 16, 2, 5


def init(key):
    def dense(k, n_in, n_out):
        return {"w": jax.random.normal(k, (n_in, n_out)) / jnp.sqrt(n_in), "b": jnp.zeros(n_out)}

    keys = jax.random.split(key, 2 + 2 * ROUNDS)
    params = {"encode": dense(keys[0], FEAT, HID), "readout": dense(keys[1], HID, 1)}
    for r in range(ROUNDS):
        params[f"message_{r}"] = dense(keys[2 + 2 * r], 2 * HID, HID)
        params[f"update_{r}"] = dense(keys[3 + 2 * r], 2 * HID, HID)
    return params


def apply_dense(p, x):
    return jnp.dot(x, p["w"]) + p["b"]


def layer_norm(x):
    mean = x.mean(axis=-1, keepdims=True)
    var = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(var + 1e-5)


def predict(params, batch):
    h = jnp.tanh(apply_dense(params["encode"], batch["x"]))
    for r in range(ROUNDS):
        pair = jnp.concatenate([h[batch["src"]], h[batch["dst"]]], axis=-1)
        m = jax.nn.relu(apply_dense(params[f"message_{r}"], pair)) * batch["edge_mask"][:, None]
        agg = jax.ops.segment_sum(m, batch["dst"], num_segments=NODES)
        u = apply_dense(params[f"update_{r}"], jnp.concatenate([h, agg], axis=-1))
        h = layer_norm(h + jax.nn.relu(u))
    pooled = jax.ops.segment_sum(h * batch["node_mask"][:, None], batch["graph"], num_segments=GRAPHS)
    return apply_dense(params["readout"], pooled)[:, 0]


def huber(err, delta=1.0):
    a = jnp.abs(err)
    return jnp.where(a <= delta, 0.5 * err ** 2, delta * (a - 0.5 * delta))


optimizer = optax.adam(3e-3, b1=0.9, b2=0.99)


@jax.jit
def train_step(params, opt_state, ema, batch):
    def objective(p):
        err = predict(p, batch) - batch["y"]
        return huber(err).mean(), jnp.abs(err).mean()

    (loss, mae), grads = jax.value_and_grad(objective, has_aux=True)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    ema = jax.tree.map(lambda e, p: 0.99 * e + 0.01 * p, ema, params)
    return params, opt_state, ema, loss, mae


def make_batch(rng):
    graph = np.sort(rng.integers(0, GRAPHS, NODES)).astype(np.int32)
    src = rng.integers(0, NODES, EDGES).astype(np.int32)
    dst = rng.integers(0, NODES, EDGES).astype(np.int32)
    x = rng.normal(size=(NODES, FEAT)).astype(np.float32)
    return {
        "x": x, "src": src, "dst": dst, "graph": graph,
        "edge_mask": (graph[src] == graph[dst]).astype(np.float32),
        "node_mask": (np.arange(NODES) < NODES - 4).astype(np.float32),
        "y": np.bincount(graph, weights=x[:, 0], minlength=GRAPHS).astype(np.float32),
    }


def main(steps=5):
    params = init(jax.random.PRNGKey(42))
    opt_state, ema = optimizer.init(params), params
    rng = np.random.default_rng(42)
    for step in range(steps):
        params, opt_state, ema, loss, mae = train_step(params, opt_state, ema, make_batch(rng))
        print(f"{step} loss {float(loss):.6f} mae {float(mae):.6f}")
    return params, ema


if __name__ == "__main__":
    main()
