"""Stocking policy for a warehouse shelf: one-step Q-learning on simulated demand."""
import functools
import sys

import jax
import jax.numpy as jnp

MAX_STOCK, ORDERS, FEATURES = 20, 6, 5
GAMMA = 0.95
TAU = 0.02


def init_layer(key, n_in, n_out):
    return {"w": jax.random.normal(key, (n_in, n_out)) * (2.0 / n_in) ** 0.5, "b": jnp.zeros(n_out)}


def init_q(key, width=32):
    k1, k2, k3, k4 = jax.random.split(key, 4)
    return {
        "body": [init_layer(k1, FEATURES, width), init_layer(k2, width, width)],
        "adv": init_layer(k3, width, ORDERS),
        "val": init_layer(k4, width, 1),
    }


def q_values(params, obs):
    h = obs
    for layer in params["body"]:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    adv = h @ params["adv"]["w"] + params["adv"]["b"]
    val = h @ params["val"]["w"] + params["val"]["b"]
    return val + adv - adv.mean(axis=-1, keepdims=True)


def observe(stock, day):
    phase = 2 * jnp.pi * day / 7
    return jnp.stack([stock / MAX_STOCK, jnp.sin(phase), jnp.cos(phase),
                      (stock < 4).astype(jnp.float32), jnp.ones_like(phase)], axis=-1)


def simulate(key, n):
    ks, kd, ka, kn = jax.random.split(key, 4)
    stock = jax.random.randint(ks, (n,), 0, MAX_STOCK + 1)
    day = jax.random.randint(kd, (n,), 0, 7)
    action = jax.random.randint(ka, (n,), 0, ORDERS)
    demand = jax.random.poisson(kn, 2.0 + (day > 4), (n,))
    have = jnp.minimum(stock + action, MAX_STOCK)
    sold = jnp.minimum(have, demand)
    reward = sold * 1.0 - 0.3 * action - 0.05 * (have - sold) - 0.8 * (demand - sold)
    return (observe(stock, day), action, reward.astype(jnp.float32),
            observe(have - sold, (day + 1) % 7))


def td_loss(params, slow, batch):
    obs, action, reward, nxt = batch
    q = jnp.take_along_axis(q_values(params, obs), action[:, None], axis=1)[:, 0]
    best = jnp.argmax(q_values(params, nxt), axis=-1)
    boot = jnp.take_along_axis(q_values(params, nxt), best[:, None], axis=1)[:, 0]
    boot = jnp.minimum(boot, jnp.take_along_axis(q_values(slow, nxt), best[:, None], axis=1)[:, 0])
    target = reward + GAMMA * boot
    err = q - target
    huber = jnp.where(jnp.abs(err) < 1.0, 0.5 * err ** 2, jnp.abs(err) - 0.5)
    return huber.mean(), jnp.abs(err).max()


def update(state, batch, lr):
    params, slow, velocity = state
    (loss, worst), grads = jax.value_and_grad(td_loss, has_aux=True)(params, slow, batch)
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, grads)
    params = jax.tree.map(lambda p, v: p - lr * v, params, velocity)
    slow = jax.tree.map(lambda s, p: s + TAU * (p - s), slow, params)
    return (params, slow, velocity), {"loss": loss, "worst": worst}


def setup(seed=0, n=32):
    key = jax.random.PRNGKey(seed)
    params = init_q(key)
    return (params, params, jax.tree.map(jnp.zeros_like, params)), functools.partial(simulate, n=n), key


def main(steps=40):
    state, sample, key = setup()
    step = jax.jit(update)
    for i in range(steps):
        key, sub = jax.random.split(key)
        state, info = step(state, sample(sub), 0.01)
        if i % 10 == 9:
            print(i + 1, {k: round(float(v), 4) for k, v in info.items()})


def dump(path):
    state, sample, key = setup()
    text = jax.jit(update).lower(state, sample(key), 0.01).compiler_ir("hlo").as_hlo_text()
    with open(path, "w") as f:
        f.write(text)


if __name__ == "__main__":
    dump(sys.argv[1]) if len(sys.argv) > 1 else main()
