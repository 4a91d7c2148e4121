"""MAML for enzyme kinetics: a small net adapts to each enzyme by three inner steps on a support set. JAX, optax."""
import sys

import jax
import jax.numpy as jnp
import optax

IN, HID, TASKS, SHOTS, INNER = 3, 12, 4, 5, 3
tx = optax.chain(optax.clip(1.0), optax.adam(optax.exponential_decay(1e-3, 100, 0.9)))


def init_params(key):
    k = jax.random.split(key, 3)
    dense = lambda k, i, o: {"w": jax.random.normal(k, (i, o)) / jnp.sqrt(i), "b": jnp.zeros((o,))}
    return {
        "net": [dense(k[0], IN, HID), dense(k[1], HID, HID), dense(k[2], HID, 1)],
        "inner_lr": jnp.full((3,), 0.05),
    }


def predict(net, x):
    for layer in net[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return (x @ net[-1]["w"] + net[-1]["b"])[:, 0]


def task_loss(net, x, y, sigma):
    r = (predict(net, x) - y) / sigma
    return jnp.mean(jnp.log1p(0.5 * r**2))          # robust to bad assays


def adapt(params, x, y, sigma):
    fast = params["net"]
    for _ in range(INNER):
        grads = jax.grad(task_loss)(fast, x, y, sigma)
        fast = [
            jax.tree.map(lambda p, g: p - lr * g, layer, grad)
            for layer, grad, lr in zip(fast, grads, params["inner_lr"])
        ]
    return fast


def meta_loss(params, support, query):
    def one(s, q):
        fast = adapt(params, *s)
        return task_loss(fast, *q)

    losses = jax.vmap(one)(support, query)
    return jnp.mean(losses), jnp.max(losses)


def step(params, opt_state, support, query):
    (loss, worst), grads = jax.value_and_grad(meta_loss, has_aux=True)(params, support, query)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    params["inner_lr"] = jnp.clip(params["inner_lr"], 1e-4, 0.5)
    return params, opt_state, {"loss": loss, "worst": worst}


def make_tasks(i):
    k = jax.random.split(jax.random.key(i), 3)

    def draw(k):
        k = jax.random.split(k, 3)
        return (
            jax.random.normal(k[0], (TASKS, SHOTS, IN)),
            jax.random.normal(k[1], (TASKS, SHOTS)),
            jax.random.uniform(k[2], (TASKS, SHOTS), minval=0.5, maxval=1.5),
        )

    return draw(k[0]), draw(k[1])


def main(path):
    params = init_params(jax.random.key(7))
    opt_state = tx.init(params)
    with open(path, "w") as f:
        f.write(jax.jit(step).lower(params, opt_state, *make_tasks(0)).compiler_ir("hlo").as_hlo_module().to_string())
    run = jax.jit(step)
    for i in range(4):
        params, opt_state, res = run(params, opt_state, *make_tasks(i))
        print(i, {k: round(float(v), 6) for k, v in res.items()})


if __name__ == "__main__":
    main(sys.argv[1])
