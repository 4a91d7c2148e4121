"""Node classification with a small message-passing network, plain JAX."""
import jax
import jax.numpy as jnp
import numpy as np

N_NODES, N_EDGES, N_FEAT, N_HID, N_CLASS = 40, 120, 9, 16, 5
LR, MOMENTUM = 0.05, 0.9


def glorot(key, shape):
    limit = np.sqrt(6.0 / sum(shape))
    return jax.random.uniform(key, shape, minval=-limit, maxval=limit)


def init_params(key):
    ks = jax.random.split(key, 6)
    return {
        "encoder": {"w": glorot(ks[0], (N_FEAT, N_HID)), "b": jnp.zeros(N_HID)},
        "message": {"w": glorot(ks[1], (N_HID, N_HID))},
        "self": {"w": glorot(ks[2], (N_HID, N_HID)), "b": jnp.zeros(N_HID)},
        "readout": {"w": glorot(ks[3], (N_HID, N_CLASS)), "b": jnp.zeros(N_CLASS)},
    }


def dense(p, x):
    y = x @ p["w"]
    return y + p["b"] if "b" in p else y


def propagate(params, h, senders, receivers, inv_degree):
    msg = dense(params["message"], h)[senders]
    agg = jax.ops.segment_sum(msg, receivers, num_segments=N_NODES)
    agg = agg * inv_degree[:, None]
    return jnp.tanh(dense(params["self"], h) + agg)


def forward(params, graph):
    h = jnp.tanh(dense(params["encoder"], graph["x"]))
    for _ in range(2):
        h = propagate(params, h, graph["senders"], graph["receivers"], graph["inv_degree"])
    return dense(params["readout"], h)


def loss_fn(params, graph):
    logits = forward(params, graph)
    logp = jax.nn.log_softmax(logits)
    onehot = jax.nn.one_hot(graph["label"], N_CLASS)
    nll = -jnp.sum(onehot * logp, axis=-1)
    mask = graph["train_mask"]
    return jnp.sum(nll * mask) / jnp.sum(mask)


@jax.jit
def train_step(params, velocity, graph):
    loss, grads = jax.value_and_grad(loss_fn)(params, graph)
    velocity = jax.tree.map(lambda v, g: MOMENTUM * v + g, velocity, grads)
    params = jax.tree.map(lambda p, v: p - LR * v, params, velocity)
    return params, velocity, loss


def make_graph(seed):
    rng = np.random.default_rng(seed)
    label = rng.integers(N_CLASS, size=N_NODES)
    senders = rng.integers(N_NODES, size=N_EDGES)
    receivers = rng.integers(N_NODES, size=N_EDGES)
    degree = np.bincount(receivers, minlength=N_NODES)
    centers = rng.normal(size=(N_CLASS, N_FEAT))
    return {
        "x": (centers[label] + rng.normal(size=(N_NODES, N_FEAT))).astype(np.float32),
        "label": label.astype(np.int32),
        "senders": senders.astype(np.int32),
        "receivers": receivers.astype(np.int32),
        "inv_degree": (1.0 / np.maximum(degree, 1)).astype(np.float32),
        "train_mask": (rng.random(N_NODES) < 0.6).astype(np.float32),
    }


def main(steps=5):
    graph = make_graph(0)
    params = init_params(jax.random.PRNGKey(0))
    velocity = jax.tree.map(jnp.zeros_like, params)
    for i in range(steps):
        params, velocity, loss = train_step(params, velocity, graph)
        print(i, "%.6f" % loss)
    print("norm %.6f" % sum(float(jnp.abs(p).sum()) for p in jax.tree.leaves(params)))


if __name__ == "__main__":
    main()
