import sys
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax, random

# name generator: two stacked LSTMs over characters
VOCAB, EMB, HID, T, B = 28, 12, 20, 9, 8


def lstm_params(key, nin, nh):
    k1, k2 = random.split(key)
    return {
        "wx": random.uniform(k1, (nin, 4 * nh), minval=-1, maxval=1) * nin ** -0.5,
        "wh": random.uniform(k2, (nh, 4 * nh), minval=-1, maxval=1) * nh ** -0.5,
        "b": jnp.zeros(4 * nh),
    }


def init_params(key):
    ks = random.split(key, 4)
    return {
        "embed": random.normal(ks[0], (VOCAB, EMB)) * 0.1,
        "lstm": [lstm_params(ks[1], EMB, HID), lstm_params(ks[2], HID, HID)],
        "head": {"w": random.normal(ks[3], (HID, VOCAB)) * HID ** -0.5, "b": jnp.zeros(VOCAB)},
    }


def lstm_cell(p, carry, x):
    h, c = carry
    z = x @ p["wx"] + h @ p["wh"] + p["b"]
    i, f, g, o = jnp.split(z, 4, axis=-1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    h = jax.nn.sigmoid(o) * jnp.tanh(c)
    return (h, c), h


def run_lstm(p, xs):
    b = xs.shape[1]
    carry = (jnp.zeros((b, HID)), jnp.zeros((b, HID)))
    _, hs = lax.scan(partial(lstm_cell, p), carry, xs)
    return hs


def loss_fn(params, chars):
    xs = params["embed"][chars[:, :-1]].swapaxes(0, 1)
    for p in params["lstm"]:
        xs = run_lstm(p, xs)
    logits = xs @ params["head"]["w"] + params["head"]["b"]
    target = jax.nn.one_hot(chars[:, 1:].T, VOCAB)
    return -jnp.mean(jnp.sum(target * jax.nn.log_softmax(logits), axis=-1))


def momentum_update(params, vel, grads, lr):
    vel = jax.tree.map(lambda v, g: 0.9 * v + jnp.clip(g, -0.5, 0.5), vel, grads)
    return jax.tree.map(lambda p, v: p - lr * v, params, vel), vel


@jax.jit
def step(params, vel, chars, lr):
    loss, grads = jax.value_and_grad(loss_fn)(params, chars)
    params, vel = momentum_update(params, vel, grads, lr)
    return params, vel, loss


def run(dump=None):
    key = random.PRNGKey(12)
    params = init_params(key)
    vel = jax.tree.map(jnp.zeros_like, params)
    for it in range(6):
        key, k = random.split(key)
        chars = jnp.cumsum(random.randint(k, (B, T + 1), 0, 3), axis=1) % VOCAB
        lr = 0.2 * 0.95 ** it
        if it == 0 and dump:
            module = step.lower(params, vel, chars, lr).compiler_ir("hlo")
            with open(dump, "w") as fh:
                fh.write(module.get_hlo_module().to_string())
        params, vel, loss = step(params, vel, chars, lr)
    print("final", loss)


run(*sys.argv[1:2])
