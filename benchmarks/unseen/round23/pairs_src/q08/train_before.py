"""GraphSAGE-style node classification on small random community graphs."""
import jax
import jax.numpy as jnp
import numpy as np
import optax

N, E, F, H, C = 24, 80, 6, 16, 4


def init(rng):
    def dense(i, o):
        return {"w": (rng.standard_normal((i, o)) / np.sqrt(i)).astype(np.float32), "b": np.zeros(o, np.float32)}

    return {
        "embed": dense(F, H),
        "layer1": {"self": dense(H, H), "neigh": dense(H, H), "scale": np.ones(H, np.float32)},
        "layer2": {"self": dense(H, H), "neigh": dense(H, H), "scale": np.ones(H, np.float32)},
        "head": dense(H, C),
    }


def linear(p, x):
    return jnp.dot(x, p["w"]) + p["b"]


def rms(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-5) * scale


def sage(p, h, src, dst):
    msg = h[src]
    total = jax.ops.segment_sum(msg, dst, num_segments=N)
    deg = jax.ops.segment_sum(jnp.ones_like(dst, h.dtype), dst, num_segments=N)
    neigh = total / jnp.maximum(deg, 1.0)[:, None]
    out = linear(p["self"], h) + linear(p["neigh"], neigh)
    return h + jax.nn.relu(rms(out, p["scale"]))


def forward(params, x, src, dst):
    h = jnp.tanh(linear(params["embed"], x))
    h = sage(params["layer1"], h, src, dst)
    h = sage(params["layer2"], h, src, dst)
    return linear(params["head"], h)


def loss_fn(params, batch):
    logits = forward(params, batch["x"], batch["src"], batch["dst"])
    nll = optax.softmax_cross_entropy(logits, jax.nn.one_hot(batch["y"], C))
    mask = batch["train"].astype(logits.dtype)
    loss = jnp.sum(nll * mask) / jnp.sum(mask)
    acc = jnp.sum((jnp.argmax(logits, -1) == batch["y"]) * mask) / jnp.sum(mask)
    return loss, acc


tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-3, b1=0.9, b2=0.99))


@jax.jit
def train_step(params, opt_state, batch):
    (loss, acc), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, loss, acc


def graph(seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, C, N).astype(np.int32)
    x = (np.eye(C, F)[y] + 0.7 * rng.standard_normal((N, F))).astype(np.float32)
    src = rng.integers(0, N, E).astype(np.int32)
    same = np.array([rng.choice(np.flatnonzero(y == y[s])) for s in src])
    dst = np.where(rng.random(E) < 0.8, same, rng.integers(0, N, E)).astype(np.int32)
    return {"x": x, "src": src, "dst": dst, "y": y, "train": rng.random(N) < 0.6}


if __name__ == "__main__":
    params = jax.tree_util.tree_map(jnp.asarray, init(np.random.default_rng(0)))
    opt_state = tx.init(params)
    for i in range(6):
        params, opt_state, loss, acc = train_step(params, opt_state, graph(i % 2))
        print(i, "%.6f %.4f" % (float(loss), float(acc)))
    print("norm %.6f" % float(optax.global_norm(params)))
