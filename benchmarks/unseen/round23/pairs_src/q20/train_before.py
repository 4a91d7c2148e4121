"""Two-tower contrastive model (queries / items) with a symmetric InfoNCE loss."""
import jax
import jax.numpy as jnp
import numpy as np
import optax

N_QUERY, N_ITEM = 14, 18
HIDDEN, EMBED = 24, 12
BATCH = 10


def glorot(key, shape):
    lim = np.sqrt(6.0 / sum(shape))
    return jax.random.uniform(key, shape, minval=-lim, maxval=lim)


def init(key):
    k = jax.random.split(key, 4)
    return {
        "query": {
            "w1": glorot(k[0], (N_QUERY, HIDDEN)), "b1": jnp.zeros(HIDDEN),
            "g": jnp.ones(HIDDEN), "beta": jnp.zeros(HIDDEN),
            "w2": glorot(k[1], (HIDDEN, EMBED)),
        },
        "item": {
            "w1": glorot(k[2], (N_ITEM, HIDDEN)), "b1": jnp.zeros(HIDDEN),
            "g": jnp.ones(HIDDEN), "beta": jnp.zeros(HIDDEN),
            "w2": glorot(k[3], (HIDDEN, EMBED)),
        },
        "log_temp": jnp.array(np.log(0.2), jnp.float32),
    }


def layer_norm(x, g, b, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(var + eps) * g + b


def tower(p, x):
    h = x @ p["w1"] + p["b1"]
    h = jax.nn.relu(layer_norm(h, p["g"], p["beta"]))
    z = h @ p["w2"]
    return z / jnp.sqrt(jnp.sum(z * z, axis=-1, keepdims=True) + 1e-8)


def info_nce(params, q, i):
    zq, zi = tower(params["query"], q), tower(params["item"], i)
    logits = (zq @ zi.T) / jnp.exp(params["log_temp"])
    labels = jnp.arange(logits.shape[0])
    a = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
    b = optax.softmax_cross_entropy_with_integer_labels(logits.T, labels).mean()
    return 0.5 * (a + b)


opt = optax.chain(
    optax.add_decayed_weights(1e-3),
    optax.trace(decay=0.9, nesterov=False),
    optax.scale(-0.1),
)


@jax.jit
def update(params, opt_state, q, i):
    loss, grads = jax.value_and_grad(info_nce)(params, q, i)
    updates, opt_state = opt.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, loss


def batches(seed):
    rng = np.random.default_rng(seed)
    mix_q = rng.normal(size=(5, N_QUERY))
    mix_i = rng.normal(size=(5, N_ITEM))
    while True:
        z = rng.normal(size=(BATCH, 5))
        q = np.tanh(z @ mix_q) + 0.1 * rng.normal(size=(BATCH, N_QUERY))
        i = np.tanh(z @ mix_i) + 0.1 * rng.normal(size=(BATCH, N_ITEM))
        yield q.astype(np.float32), i.astype(np.float32)


if __name__ == "__main__":
    params = init(jax.random.PRNGKey(3))
    opt_state = opt.init(params)
    stream = batches(0)
    for step in range(6):
        q, i = next(stream)
        params, opt_state, loss = update(params, opt_state, q, i)
        norm = float(optax.global_norm(params))
        print(f"{step}  loss={float(loss):.5f}  |w|={norm:.5f}")
