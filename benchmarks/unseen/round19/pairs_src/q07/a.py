"""Two-tower retrieval model, in-batch softmax."""
import jax
import jax.numpy as jnp


def dense(key, i, o):
    return {"kernel": jax.random.normal(key, (i, o)) / jnp.sqrt(i), "bias": jnp.zeros((o,))}


def init(seed):
    ks = jax.random.split(jax.random.key(seed), 6)
    return {
        "item": {"table": jax.random.normal(ks[0], (90, 12)) * 0.1,
                 "proj": dense(ks[1], 12, 16),
                 "out": dense(ks[2], 16, 10)},
        "query": {"table": jax.random.normal(ks[3], (70, 20)) * 0.1,
                  "proj": dense(ks[4], 20, 16),
                  "out": dense(ks[5], 16, 10)},
    }


def tower(p, ids):
    h = p["table"][ids].mean(axis=1)
    h = jax.nn.gelu(h @ p["proj"]["kernel"] + p["proj"]["bias"])
    h = h @ p["out"]["kernel"] + p["out"]["bias"]
    return h / jnp.sqrt(jnp.sum(h * h, -1, keepdims=True) + 1e-6)


def loss_fn(params, q_ids, i_ids):
    q = tower(params["query"], q_ids)
    c = tower(params["item"], i_ids)
    logits = q @ c.T / 0.07
    return -jnp.mean(jnp.diagonal(jax.nn.log_softmax(logits, axis=-1)))


@jax.jit
def train_step(params, mom, q_ids, i_ids):
    loss, grads = jax.value_and_grad(loss_fn)(params, q_ids, i_ids)
    mom = jax.tree.map(lambda m, g: 0.9 * m + g, mom, grads)
    params = jax.tree.map(lambda p, m: p - 0.05 * m, params, mom)
    return params, mom, loss


def main():
    params = init(0)
    mom = jax.tree.map(jnp.zeros_like, params)
    key = jax.random.key(9)
    for _ in range(4):
        key, a, b = jax.random.split(key, 3)
        q = jax.random.randint(a, (24, 5), 0, 70)
        i = jax.random.randint(b, (24, 3), 0, 90)
        params, mom, loss = train_step(params, mom, q, i)
        print(repr(float(loss)))


if __name__ == "__main__":
    main()
