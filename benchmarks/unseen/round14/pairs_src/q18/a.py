"""Wide-and-deep click model for a recipe site, with AdaGrad on everything."""
import jax
import jax.numpy as jnp
import numpy as np

N_RECIPES, N_USERS, N_TAGS = 50, 40, 12
DIM, DENSE = 8, 6
LAYERS = [2 * DIM + DIM + DENSE, 32, 16, 1]


def init_params(seed):
    rng = np.random.default_rng(seed)

    def normal(shape, std):
        return jnp.asarray(rng.normal(0.0, std, shape), jnp.float32)

    params = {
        "emb_recipe": normal((N_RECIPES, DIM), 0.1),
        "emb_tag": normal((N_TAGS, DIM), 0.1),
        "emb_user": normal((N_USERS, DIM), 0.1),
        "mlp": [],
        "wide": normal((DENSE,), 0.1),
    }
    for n_in, n_out in zip(LAYERS, LAYERS[1:]):
        params["mlp"].append({"bias": jnp.zeros(n_out), "kernel": normal((n_in, n_out), n_in ** -0.5)})
    return params


def deep_part(params, user, recipe, tags, dense):
    tag_vec = (tags @ params["emb_tag"]) / jnp.maximum(tags.sum(axis=1, keepdims=True), 1.0)
    x = jnp.concatenate(
        [params["emb_user"][user], params["emb_recipe"][recipe], tag_vec, dense], axis=1)
    for i, layer in enumerate(params["mlp"]):
        x = x @ layer["kernel"] + layer["bias"]
        if i + 1 < len(params["mlp"]):
            x = jnp.maximum(x, 0.0)
    return x[:, 0]


def wide_part(params, dense):
    return dense @ params["wide"]


def loss_fn(params, batch):
    deep = deep_part(params, batch["user"], batch["recipe"], batch["tags"], batch["dense"])
    wide = wide_part(params, batch["dense"])
    score = deep + wide
    clicked = batch["clicked"]
    bce = jnp.maximum(score, 0.0) - score * clicked + jnp.log1p(jnp.exp(-jnp.abs(score)))
    weight = jnp.where(clicked > 0.5, 4.0, 1.0)
    loss = jnp.sum(weight * bce) / jnp.sum(weight)
    return loss, score


@jax.jit
def train_step(state, batch):
    (loss, score), grads = jax.value_and_grad(loss_fn, has_aux=True)(state["params"], batch)
    lr = state["lr"] * jnp.power(0.999, state["count"])
    accum = jax.tree.map(lambda a, g: a + g * g, state["accum"], grads)
    params = jax.tree.map(
        lambda p, g, a: p - lr * g / (jnp.sqrt(a) + 1e-7), state["params"], grads, accum)
    hit_rate = jnp.mean((score > 0.0) == (batch["clicked"] > 0.5))
    calibration = jnp.mean(jax.nn.sigmoid(score)) - jnp.mean(batch["clicked"])
    new_state = {"accum": accum, "count": state["count"] + 1.0, "lr": state["lr"], "params": params}
    return new_state, {"bias": calibration, "hit": hit_rate, "loss": loss}


def sample_batch(rng, size=32):
    return {
        "user": jnp.asarray(rng.integers(0, N_USERS, size), jnp.int32),
        "recipe": jnp.asarray(rng.integers(0, N_RECIPES, size), jnp.int32),
        "tags": jnp.asarray(rng.random((size, N_TAGS)) < 0.2, jnp.float32),
        "dense": jnp.asarray(rng.normal(size=(size, DENSE)), jnp.float32),
        "clicked": jnp.asarray(rng.random(size) < 0.25, jnp.float32),
    }


def setup(seed=2):
    params = init_params(seed)
    state = {
        "params": params,
        "accum": jax.tree.map(lambda p: jnp.full_like(p, 0.1), params),
        "count": jnp.zeros(()),
        "lr": jnp.asarray(0.05),
    }
    return state, np.random.default_rng(seed + 1)


def main(steps=30):
    state, rng = setup()
    for i in range(steps):
        state, metrics = train_step(state, sample_batch(rng))
        if i % 10 == 9:
            print(i + 1, {k: round(float(v), 4) for k, v in metrics.items()})


if __name__ == "__main__":
    main()
