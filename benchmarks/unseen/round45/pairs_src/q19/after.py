"""MAML on battery discharge curves: few cycles of one cell -> voltage at later times (JAX)."""
import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

OUT = sys.argv[1]
TASKS, K, Q, FEAT, HID = 4, 5, 6, 3, 10
INNER_STEPS = 2


def init_params(key):
    sizes = [(FEAT, HID), (HID, HID), (HID, 1)]
    keys = jax.random.split(key, len(sizes))
    net = [
        {"w": jax.random.normal(k, s) * np.sqrt(1.0 / s[0]), "b": jnp.zeros(s[1])}
        for k, s in zip(keys, sizes)
    ]
    inner_lr = jax.tree.map(lambda _: jnp.full((), jnp.log(0.05)), net)
    return {"net": net, "log_inner_lr": inner_lr}


def forward(net, x):
    h = x
    for layer in net[:-1]:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    out = h @ net[-1]["w"] + net[-1]["b"]
    return 3.6 + 0.4 * out[..., 0]


def mse(net, x, y, mask):
    err = (forward(net, x) - y) ** 2
    return (err * mask).sum() / jnp.maximum(mask.sum(), 1.0)


def adapt(params, x, y, mask):
    def inner(net, _):
        loss, g = jax.value_and_grad(mse)(net, x, y, mask)
        g = jax.lax.stop_gradient(g)
        net = jax.tree.map(
            lambda p, gi, lr: p - jnp.exp(lr) * gi, net, g, params["log_inner_lr"]
        )
        return net, loss

    losses = []
    net = params["net"]
    for i in range(INNER_STEPS):
        net, loss = inner(net, i)
        losses.append(loss)
    return net, jnp.stack(losses)


def meta_loss(params, task):
    def one(xs, ys, ms, xq, yq, mq):
        net, inner_losses = adapt(params, xs, ys, ms)
        return mse(net, xq, yq, mq), inner_losses

    outer, inner_losses = jax.vmap(one)(*task)
    return outer.mean(), inner_losses.mean(0)


tx = optax.chain(optax.add_decayed_weights(1e-5), optax.lion(3e-4, b1=0.9, b2=0.99))


@functools.partial(jax.jit, donate_argnums=())
def step(params, opt_state, task):
    (loss, inner), grads = jax.value_and_grad(meta_loss, has_aux=True)(params, task)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss, inner


def tasks(rng):
    def part(n):
        x = rng.uniform(0, 1, (TASKS, n, FEAT)).astype(np.float32)
        cap = rng.uniform(0.8, 1.2, (TASKS, 1))
        y = (4.1 - 0.9 * x[..., 0] / cap - 0.2 * x[..., 1] ** 2).astype(np.float32)
        m = (rng.uniform(size=(TASKS, n)) < 0.85).astype(np.float32)
        return x, y, m

    return part(K) + part(Q)


def main():
    rng = np.random.default_rng(3)
    params = init_params(jax.random.PRNGKey(5))
    opt_state = tx.init(params)
    with open(OUT, "w") as f:
        f.write(step.lower(params, opt_state, tasks(rng)).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(4):
        params, opt_state, loss, inner = step(params, opt_state, tasks(rng))
        print(i, float(loss), np.asarray(inner))


if __name__ == "__main__":
    main()
