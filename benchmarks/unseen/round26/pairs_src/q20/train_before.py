"""graph classification with a two-layer GCN on padded graphs"""
import jax
import jax.numpy as jnp
import numpy as np
import optax

N, F_IN, HID, CLASSES, BATCH = 9, 4, 16, 3, 8


def glorot(key, shape):
    return jax.random.normal(key, shape) * (2.0 / sum(shape)) ** 0.5


def init_params(seed=0):
    ks = jax.random.split(jax.random.PRNGKey(seed), 4)
    return {
        "conv1": {"w": glorot(ks[0], (F_IN, HID)), "b": jnp.zeros(HID)},
        "conv2": {"w": glorot(ks[1], (HID, HID)), "b": jnp.zeros(HID)},
        "gate": {"w": glorot(ks[2], (HID, 1))},
        "readout": {"w": glorot(ks[3], (HID, CLASSES)), "b": jnp.zeros(CLASSES)},
    }


def normalise(adj, mask):
    eye = jnp.eye(N) * mask[:, :, None]
    a = adj + eye
    deg = jnp.sum(a, axis=-1)
    inv = jnp.where(deg > 0, 1.0 / jnp.sqrt(jnp.maximum(deg, 1.0)), 0.0)
    return inv[:, :, None] * a * inv[:, None, :]


def gcn(layer, a, x):
    return jnp.einsum("bij,bjf->bif", a, x @ layer["w"]) + layer["b"]


def forward(params, batch):
    a = normalise(batch["adj"], batch["mask"])
    h = jax.nn.relu(gcn(params["conv1"], a, batch["x"]))
    h = h + jax.nn.relu(gcn(params["conv2"], a, h))
    score = (h @ params["gate"]["w"])[..., 0]
    score = jnp.where(batch["mask"] > 0, score, -1e9)
    w = jax.nn.softmax(score, axis=-1)
    pooled = jnp.einsum("bn,bnf->bf", w, h)
    return pooled @ params["readout"]["w"] + params["readout"]["b"]


def loss_fn(params, batch):
    logits = forward(params, batch)
    ce = optax.softmax_cross_entropy_with_integer_labels(logits, batch["y"])
    acc = jnp.mean(jnp.argmax(logits, -1) == batch["y"])
    return jnp.mean(ce), acc


tx = optax.adamw(3e-3, weight_decay=1e-2)


@jax.jit
def train_step(params, opt_state, batch):
    (loss, acc), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, loss, acc


def make_batch(rs):
    adj = np.zeros((BATCH, N, N), np.float32)
    mask = np.zeros((BATCH, N), np.float32)
    y = rs.randint(0, CLASSES, BATCH).astype(np.int32)
    for b in range(BATCH):
        n = rs.randint(4, N + 1)
        mask[b, :n] = 1
        p = (0.2, 0.5, 0.8)[y[b]]
        up = np.triu(rs.rand(n, n) < p, 1)
        adj[b, :n, :n] = up + up.T
    x = rs.randn(BATCH, N, F_IN).astype(np.float32) * mask[..., None]
    x[..., 0] = adj.sum(-1) / N
    return {"adj": adj, "mask": mask, "x": x, "y": y}


if __name__ == "__main__":
    params = init_params()
    opt_state = tx.init(params)
    rs = np.random.RandomState(0)
    for i in range(5):
        params, opt_state, loss, acc = train_step(params, opt_state, make_batch(rs))
        print(f"{i} {float(loss):.6f} {float(acc):.3f}")
