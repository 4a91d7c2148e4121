"""Click-through model for recipe recommendations: linear part plus embeddings and an MLP."""
from typing import List, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Sizes(NamedTuple):
    users: int = 40
    recipes: int = 50
    tags: int = 12
    dim: int = 8
    context: int = 6
    hidden: tuple = (32, 16)


SIZES = Sizes()


class Affine(NamedTuple):
    offset: jax.Array
    matrix: jax.Array


class Weights(NamedTuple):
    recipes: jax.Array
    tags: jax.Array
    users: jax.Array
    tower: List[Affine]
    linear: jax.Array


class Impression(NamedTuple):
    label: jax.Array
    context: jax.Array
    tag_flags: jax.Array
    user_id: jax.Array
    recipe_id: jax.Array


def fresh_weights(seed, s=SIZES):
    rng = np.random.default_rng(seed)
    draw = lambda std, *shape: jnp.asarray(rng.normal(0.0, std, shape), jnp.float32)
    recipes = draw(0.1, s.recipes, s.dim)
    tags = draw(0.1, s.tags, s.dim)
    users = draw(0.1, s.users, s.dim)
    linear = draw(0.1, s.context)
    widths = (3 * s.dim + s.context, *s.hidden, 1)
    tower = [Affine(jnp.zeros(o), draw(i ** -0.5, i, o)) for i, o in zip(widths, widths[1:])]
    return Weights(recipes, tags, users, tower, linear)


def tower_score(w: Weights, imp: Impression):
    user_vec = w.users[imp.user_id]
    recipe_vec = w.recipes[imp.recipe_id]
    flags = imp.tag_flags
    how_many = jnp.maximum(flags.sum(axis=1, keepdims=True), 1.0)
    tag_vec = (flags @ w.tags) / how_many
    h = jnp.concatenate([user_vec, recipe_vec, tag_vec, imp.context], axis=1)
    *inner, last = w.tower
    for layer in inner:
        h = jnp.maximum(h @ layer.matrix + layer.offset, 0.0)
    return (h @ last.matrix + last.offset)[:, 0]


def objective(w: Weights, imp: Impression):
    importance = jnp.where(imp.label > 0.5, 4.0, 1.0)
    linear = imp.context @ w.linear
    logit = tower_score(w, imp) + linear
    entropy = jnp.maximum(logit, 0.0) - logit * imp.label + jnp.log1p(jnp.exp(-jnp.abs(logit)))
    return jnp.sum(importance * entropy) / jnp.sum(importance), logit


@jax.jit
def update(imp: Impression, base_lr, weights: Weights, steps_done, squares: Weights):
    value_and_grad = jax.value_and_grad(objective, has_aux=True)
    (loss, logit), g = value_and_grad(weights, imp)
    mean_label = jnp.mean(imp.label)
    over_prediction = jnp.mean(jax.nn.sigmoid(logit)) - mean_label
    agreement = jnp.mean((logit > 0.0) == (imp.label > 0.5))
    rate = base_lr * jnp.power(0.999, steps_done)
    squares = jax.tree.map(lambda s, d: s + d * d, squares, g)
    weights = jax.tree.map(lambda w, d, s: w - rate * d / (jnp.sqrt(s) + 1e-7), weights, g, squares)
    return (squares, steps_done + 1.0, base_lr, weights), (over_prediction, agreement, loss)


def impressions(rng, n=32, s=SIZES):
    user_id = rng.integers(0, s.users, n)
    recipe_id = rng.integers(0, s.recipes, n)
    flags = rng.random((n, s.tags)) < 0.2
    context = rng.normal(size=(n, s.context))
    label = rng.random(n) < 0.25
    return Impression(
        label=jnp.asarray(label, jnp.float32),
        context=jnp.asarray(context, jnp.float32),
        tag_flags=jnp.asarray(flags, jnp.float32),
        user_id=jnp.asarray(user_id, jnp.int32),
        recipe_id=jnp.asarray(recipe_id, jnp.int32))


def setup(seed=2):
    weights = fresh_weights(seed)
    squares = jax.tree.map(lambda w: jnp.full_like(w, 0.1), weights)
    return weights, squares, np.random.default_rng(seed + 1)


def main():
    weights, squares, rng = setup()
    lr, done = jnp.asarray(0.05), jnp.zeros(())
    for _ in range(30):
        (squares, done, lr, weights), report = update(impressions(rng), lr, weights, done, squares)
        if int(done) % 10 == 0:
            print(int(done), *(f"{float(r):.4f}" for r in report))


if __name__ == "__main__":
    main()
