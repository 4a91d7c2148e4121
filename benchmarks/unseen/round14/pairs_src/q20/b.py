"""Sequence model over maintenance events (event code + hours since the last event)."""
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


@dataclass(frozen=True)
class Hyper:
    vocabulary: int = 18
    width: int = 16
    n_heads: int = 2
    n_layers: int = 2
    inner: int = 32
    context: int = 16
    batch: int = 6

    @property
    def head_width(self):
        return self.width // self.n_heads


class Attention(NamedTuple):
    pre_scale: Array
    out: Array
    value: Array
    key: Array
    query: Array


class FeedForward(NamedTuple):
    pre_scale: Array
    shrink: Array
    grow: Array


class EventModel(NamedTuple):
    mixer: Attention
    channel: FeedForward
    last_scale: Array
    table: Array
    hours: Array

    def export(self):
        """The leaves in the order of the checkpoint format."""
        a, c = self.mixer, self.channel
        return (self.hours, self.table, a.query, a.key, a.value, a.out,
                c.grow, c.shrink, a.pre_scale, c.pre_scale, self.last_scale)

    @classmethod
    def load(cls, leaves):
        hours, table, q, k, v, o, grow, shrink, s1, s2, last = leaves
        return cls(Attention(s1, o, v, k, q), FeedForward(s2, shrink, grow), last, table, hours)


class Learner(NamedTuple):
    clock: Array
    smoothed: EventModel
    square: EventModel
    momentum: EventModel


WEIGHT_DECAY = EventModel(Attention(0.0, 0.01, 0.01, 0.01, 0.01), FeedForward(0.0, 0.0, 0.0),
                          0.0, 0.0, 0.0)


def scaled(x, gain):
    power = jnp.mean(x * x, axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(power + 1e-6) * gain


def rotary_table(hp, length):
    half = hp.head_width // 2
    rate = 1.0 / 100.0 ** (jnp.arange(half) / half)
    phase = jnp.arange(length)[:, None] * rate
    sin = jnp.sin(phase)
    return jnp.cos(phase), sin


def turn(x, table):
    cos, sin = table
    left, right = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1)


def attend(hp, p: Attention, layer, x, table, visible):
    h = scaled(x, p.pre_scale[layer])
    split = lambda y: y.reshape(*y.shape[:2], hp.n_heads, hp.head_width).transpose(0, 2, 1, 3)
    q = turn(split(h @ p.query[layer]), table)
    k = turn(split(h @ p.key[layer]), table)
    v = split(h @ p.value[layer])
    affinity = jnp.einsum("bhqd,bhkd->bhqk", q, k) * hp.head_width ** -0.5
    share = jax.nn.softmax(jnp.where(visible, affinity, -1e9), axis=-1)
    mixed = jnp.einsum("bhqk,bhkd->bhqd", share, v).transpose(0, 2, 1, 3).reshape(x.shape)
    return x + mixed @ p.out[layer]


def transform(p: FeedForward, layer, x):
    return x + jax.nn.silu(scaled(x, p.pre_scale[layer]) @ p.grow[layer]) @ p.shrink[layer]


def scores(hp, model: EventModel, events, hours):
    length = events.shape[1]
    table = rotary_table(hp, length)
    visible = jnp.tril(jnp.ones((length, length), bool))
    x = model.table[events] + jnp.log1p(hours)[..., None] * model.hours[0]
    for layer in range(hp.n_layers):
        x = attend(hp, model.mixer, layer, x, table, visible)
        x = transform(model.channel, layer, x)
    return scaled(x, model.last_scale) @ model.table.T


def cost(model, hp, events, hours):
    wanted = events[:, 1:]
    counted = (wanted != 0).astype(jnp.float32)
    logits = scores(hp, model, events[:, :-1], hours[:, :-1])
    n = jnp.sum(counted)
    right = jnp.sum((jnp.argmax(logits, axis=-1) == wanted) * counted) / n
    log_prob = jax.nn.log_softmax(logits)
    surprise = -jnp.take_along_axis(log_prob, wanted[..., None], axis=-1)[..., 0]
    return jnp.sum(surprise * counted) / n, right


@partial(jax.jit, static_argnums=0)
def advance(hp, hours, events, learner: Learner, model: EventModel):
    clock = learner.clock + 1.0
    (loss, right), slope = jax.value_and_grad(cost, has_aux=True)(model, hp, events, hours)
    square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, learner.square, slope)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, learner.momentum, slope)
    rate = 4e-3 * jnp.minimum(1.0, clock / 8.0)

    def move(w, m, s, decay):
        direction = (m / (1.0 - 0.9 ** clock)) / (jnp.sqrt(s / (1.0 - 0.99 ** clock)) + 1e-8)
        return w - rate * (direction + decay * w)

    model = jax.tree.map(move, model, momentum, square, WEIGHT_DECAY)
    smoothed = jax.tree.map(lambda a, w: 0.95 * a + 0.05 * w, learner.smoothed, model)
    return (model.export(), momentum.export(), square.export(), smoothed.export(),
            clock, loss, right)


def draw_logs(rng, hp):
    events = rng.integers(1, hp.vocabulary, (hp.batch, hp.context))
    events[:, 2::3] = (events[:, 1::3] + 1)[:, : events[:, 2::3].shape[1]] % hp.vocabulary
    hours = rng.gamma(1.0, 20.0, (hp.batch, hp.context))
    return jnp.asarray(hours, jnp.float32), jnp.asarray(events, jnp.int32)


def setup(seed=13, hp=Hyper()):
    rng = np.random.default_rng(seed)
    d, n = hp.width, hp.n_layers
    draw = lambda *s: jnp.asarray(rng.normal(0, s[-2] ** -0.5, s), jnp.float32)
    table, hours = draw(hp.vocabulary, d), draw(1, d)
    q, k, v, o = (draw(n, d, d) for _ in range(4))
    grow, shrink = draw(n, d, hp.inner), draw(n, hp.inner, d)
    ones = jnp.ones((n, d))
    model = EventModel.load((hours, table, q, k, v, o, grow, shrink, ones, ones, jnp.ones(d)))
    zeros = jax.tree.map(jnp.zeros_like, model)
    return hp, model, Learner(jnp.zeros(()), model, zeros, zeros), rng


def main(updates=24):
    hp, model, learner, rng = setup()
    for i in range(updates):
        *trees, clock, loss, right = advance(hp, *draw_logs(rng, hp), learner, model)
        model, momentum, square, smoothed = map(EventModel.load, trees)
        learner = Learner(clock, smoothed, square, momentum)
        if (i + 1) % 8 == 0:
            print(f"{i + 1} loss {float(loss):.4f} hits {float(right):.3f}")


if __name__ == "__main__":
    main()
