"""Matching dishes to cupboards. Parameters live in small registered classes."""
import os
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import tree_util as tu

N_TERMS, D, D_OUT, B = 60, 16, 12, 16


def node(*fields):
    def wrap(cls):
        cls = dataclass(cls)
        return tu.register_dataclass(cls, data_fields=list(fields), meta_fields=[])
    return wrap


def normalise(x):
    return x / jnp.sqrt(jnp.sum(x * x, axis=-1, keepdims=True) + 1e-8)


@node("offset", "proj", "lift", "vocab")
class CupboardTower:
    offset: jax.Array
    proj: jax.Array
    lift: jax.Array
    vocab: jax.Array

    def __call__(self, ids):
        bag = self.vocab[ids].mean(1)
        hidden = jnp.maximum(bag @ self.lift, 0.0)
        return normalise(hidden @ self.proj + self.offset)


@node("vocab", "probe", "offset", "proj")
class DishTower:
    vocab: jax.Array
    probe: jax.Array
    offset: jax.Array
    proj: jax.Array

    def weights(self, e):
        s = (e @ self.probe)[..., 0]
        s = jnp.exp(s - jax.lax.stop_gradient(s.max(-1, keepdims=True)))
        return s / s.sum(-1, keepdims=True)

    def __call__(self, ids):
        e = self.vocab[ids]
        return normalise(jnp.tanh(jnp.einsum("bt,bte->be", self.weights(e), e) @ self.proj + self.offset))


@node("sharpness", "cupboard", "dish")
class Matcher:
    sharpness: jax.Array
    cupboard: CupboardTower
    dish: DishTower

    def similarity(self, cupboards, dishes):
        right = self.cupboard(cupboards)
        left = self.dish(dishes)
        return left @ right.T * jnp.exp(self.sharpness)


@node("second", "tick", "first")
class Adam:
    second: Matcher
    tick: jax.Array
    first: Matcher

    def apply(self, model, slopes):
        tick = self.tick + 1.0
        second = tu.tree_map(lambda a, g: 0.99 * a + 0.01 * (g * g), self.second, slopes)
        first = tu.tree_map(lambda a, g: 0.9 * a + 0.1 * g, self.first, slopes)
        c2, c1 = 1 - 0.99 ** tick, 1 - 0.9 ** tick
        move = lambda p, a, b: p - 3e-3 * (a / c1) / (jnp.sqrt(b / c2) + 1e-6)
        return tu.tree_map(move, model, first, second), Adam(second, tick, first)


def objective(model, cupboards, dishes):
    sim = model.similarity(cupboards, dishes)
    return jnp.mean(jax.scipy.special.logsumexp(sim, axis=1) - jnp.diagonal(sim)), sim


def learn(cupboards, dishes, opt, model):
    (value, sim), slopes = jax.value_and_grad(objective, has_aux=True)(model, cupboards, dishes)
    model, opt = opt.apply(model, slopes)
    top1 = jnp.mean(jnp.argmax(sim, axis=1) == jnp.arange(B))
    return top1, model, value, opt


def start(key):
    k = jax.random.split(key, 6)
    n = lambda i, *s: jax.random.normal(k[i], s) * s[0] ** -0.5
    return Matcher(jnp.float32(0.5),
                   CupboardTower(jnp.zeros(D_OUT), n(0, 24, D_OUT), n(1, D, 24), n(2, N_TERMS, D)),
                   DishTower(n(3, N_TERMS, D), n(4, D, 1), jnp.zeros(D_OUT), n(5, D, D_OUT)))


def sample(key):
    a, b, c = jax.random.split(key, 3)
    kind = jax.random.randint(a, (B, 1), 0, N_TERMS)
    dishes = (kind + jax.random.randint(b, (B, 10), 0, 5)) % N_TERMS
    return (kind * 7 + jax.random.randint(c, (B, 6), 0, 3)) % N_TERMS, dishes


if __name__ == "__main__":
    key = jax.random.PRNGKey(4)
    model = start(key)
    blank = tu.tree_map(jnp.zeros_like, model)
    opt = Adam(blank, jnp.float32(0), blank)
    target = os.environ.get("HLO_OUT")
    if target:
        text = jax.jit(learn).lower(*sample(key), opt, model).as_text(dialect="hlo")
        with open(target, "w") as f:
            f.write(text)
    else:
        learn_c = jax.jit(learn)
        for n in range(1, 81):
            key, sub = jax.random.split(key)
            top1, model, value, opt = learn_c(*sample(sub), opt, model)
            if n % 20 == 0:
                print(n, float(value), float(top1))
