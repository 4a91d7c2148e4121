"""Few-shot regression with MAML; inner loop unrolled, outer loop in optax."""
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax


@dataclass(frozen=True)
class MetaConfig:
    hidden: int = 32
    inner_steps: int = 2
    inner_lr: float = 0.01
    shots: int = 10
    queries: int = 10
    tasks: int = 4
    meta_lr: float = 1e-3
    total_iters: int = 8
    second_order_from: int = 4


CFG = MetaConfig()
optimizer = optax.chain(optax.clip_by_global_norm(10.0), optax.adam(CFG.meta_lr))


def init_params(key, hidden):
    sizes = [1, hidden, hidden, 1]
    keys = jax.random.split(key, len(sizes) - 1)
    net = [
        {"w": jax.random.normal(k, (i, o)) * np.sqrt(2.0 / i), "b": jnp.zeros(o)}
        for k, i, o in zip(keys, sizes[:-1], sizes[1:])
    ]
    return {"net": net, "log_lr": jnp.full(CFG.inner_steps, np.log(CFG.inner_lr))}


def predict(net, x):
    for layer in net[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return x @ net[-1]["w"] + net[-1]["b"]


def mse(net, x, y):
    return jnp.mean((predict(net, x) - y) ** 2)


def adapt(params, x, y, second_order):
    net = params["net"]
    for k in range(CFG.inner_steps):
        grads = jax.grad(mse)(net, x, y)
        if not second_order:
            grads = jax.lax.stop_gradient(grads)
        lr = jnp.exp(params["log_lr"][k])
        net = jax.tree.map(lambda p, g: p - lr * g, net, grads)
    return net


def meta_loss(params, batch, second_order):
    def task_loss(xs, ys, xq, yq):
        return mse(adapt(params, xs, ys, second_order), xq, yq)

    return jnp.mean(jax.vmap(task_loss)(*batch))


@partial(jax.jit, static_argnames="second_order")
def meta_step(params, opt_state, batch, *, second_order):
    loss, grads = jax.value_and_grad(meta_loss)(params, batch, second_order)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def sample_tasks(rng, cfg):
    amp = rng.uniform(0.1, 5.0, (cfg.tasks, 1, 1))
    phase = rng.uniform(0, np.pi, (cfg.tasks, 1, 1))
    x = rng.uniform(-5, 5, (cfg.tasks, cfg.shots + cfg.queries, 1))
    y = amp * np.sin(x - phase)
    x, y = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)
    return x[:, : cfg.shots], y[:, : cfg.shots], x[:, cfg.shots :], y[:, cfg.shots :]


def main():
    rng = np.random.default_rng(0)
    params = init_params(jax.random.key(0), CFG.hidden)
    opt_state = optimizer.init(params)
    for it in range(CFG.total_iters):
        batch = sample_tasks(rng, CFG)
        params, opt_state, loss = meta_step(
            params, opt_state, batch, second_order=it >= CFG.second_order_from
        )
        print(f"{it} query loss {float(loss):.4f}")


if __name__ == "__main__":
    main()
