"""Spiking network for event-camera gestures: leaky neurons, surrogate gradients (flax, optax)."""
import os
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

THRESHOLD = 1.0
SLOPE = 5.0


@jax.custom_vjp
def spike(v):
    return (v > 0).astype(v.dtype)


def _spike_fwd(v):
    return spike(v), v


def _spike_bwd(v, g):
    return (g / jnp.square(1.0 + SLOPE * jnp.abs(v)),)


spike.defvjp(_spike_fwd, _spike_bwd)


class LeakyLayer(nn.Module):
    size: int

    @nn.compact
    def __call__(self, v, current):
        raw = self.param("leak", nn.initializers.constant(2.0), (self.size,))
        leak = nn.sigmoid(raw)
        v = leak * v + (1.0 - leak) * current
        s = spike(v - THRESHOLD)
        v = v - THRESHOLD * jax.lax.stop_gradient(s)
        return v, s


class Tick(nn.Module):
    hidden: int
    classes: int

    @nn.compact
    def __call__(self, carry, frame):
        v1, v2, readout = carry
        x = nn.Dense(self.hidden, name="in")(frame)
        v1, s1 = LeakyLayer(self.hidden, name="lif1")(v1, 4.0 * x)
        y = nn.Dense(self.hidden, name="mid")(s1)
        v2, s2 = LeakyLayer(self.hidden, name="lif2")(v2, 4.0 * y)
        readout = 0.9 * readout + nn.Dense(self.classes, name="out")(s2)
        return (v1, v2, readout), (readout, s1.mean() + s2.mean())


class Spiking(nn.Module):
    hidden: int = 12
    classes: int = 5

    @nn.compact
    def __call__(self, events):
        n = events.shape[1]
        tick = nn.scan(Tick, variable_broadcast="params", split_rngs={"params": False})
        carry = (
            jnp.zeros((n, self.hidden)),
            jnp.zeros((n, self.hidden)),
            jnp.zeros((n, self.classes)),
        )
        _, (readout, rate) = tick(self.hidden, self.classes, name="tick")(carry, events)
        return readout.max(axis=0), rate.mean()


model = Spiking()


def make_optimizer():
    return optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adam(2e-3),
    )


optimizer = make_optimizer()


def loss_fn(params, events, labels):
    logits, rate = model.apply({"params": params}, events)
    ce = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
    loss = ce + 0.5 * jnp.square(rate - 0.2)
    return loss, (rate, (logits.argmax(-1) == labels).mean())


def step(params, opt_state, events, labels):
    (loss, aux), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, events, labels)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss, aux


def make_batch(key, ticks=8, n=6, cells=10):
    k1, k2 = jax.random.split(key)
    events = jax.random.bernoulli(k1, 0.4, (ticks, n, cells)).astype(jnp.float32)
    return events, jax.random.randint(k2, (n,), 0, 5)


def main(path):
    key = jax.random.PRNGKey(20)
    events, labels = make_batch(key)
    params = model.init(key, events)["params"]
    opt_state = optimizer.init(params)
    train = jax.jit(step)
    lowered = train.lower(params, opt_state, events, labels)
    with open(path, "w") as f:
        f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(3):
        batch = make_batch(jax.random.PRNGKey(i))
        params, opt_state, loss, aux = train(params, opt_state, *batch)
        print(i, float(loss), [float(a) for a in aux])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "a.hlo"))
