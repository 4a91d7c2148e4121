"""MAML on sinusoids (flax + optax)."""
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

META_BATCH, SHOTS, QUERY = 4, 5, 10
INNER_LR = 0.005


class Regressor(nn.Module):
    width: int = 24

    @nn.compact
    def __call__(self, x):
        for i in range(2):
            x = nn.Dense(self.width, name=f"hidden{i}")(x)
            x = nn.relu(x)
        return nn.Dense(1, name="out")(x)


model = Regressor()
outer = optax.chain(optax.clip_by_global_norm(5.0), optax.adam(1e-3))


def mse(params, x, y):
    return jnp.mean(jnp.square(model.apply(params, x) - y))


def adapt(params, x, y, n_inner):
    def body(fast, _):
        loss, grads = jax.value_and_grad(mse)(fast, x, y)
        fast = jax.tree.map(lambda p, g: p - INNER_LR * g, fast, grads)
        return fast, loss

    return jax.lax.scan(body, params, None, length=n_inner)


def task_loss(params, task, n_inner):
    fast, support_losses = adapt(params, task["xs"], task["ys"], n_inner)
    return mse(fast, task["xq"], task["yq"]), support_losses[-1]


def meta_loss(params, tasks, n_inner):
    query, support = jax.vmap(lambda t: task_loss(params, t, n_inner))(tasks)
    return query.mean(), support.mean()


@functools.partial(jax.jit, static_argnames="n_inner")
def meta_step(params, opt_state, tasks, n_inner):
    (loss, support), grads = jax.value_and_grad(meta_loss, has_aux=True)(params, tasks, n_inner)
    updates, opt_state = outer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, {"query": loss, "support": support}


def sample_tasks(rng):
    amp = rng.uniform(0.1, 5.0, (META_BATCH, 1, 1))
    phase = rng.uniform(0, np.pi, (META_BATCH, 1, 1))
    x = rng.uniform(-5, 5, (META_BATCH, SHOTS + QUERY, 1))
    y = amp * np.sin(x + phase)
    x, y = x.astype(np.float32), y.astype(np.float32)
    return {"xs": x[:, :SHOTS], "ys": y[:, :SHOTS], "xq": x[:, SHOTS:], "yq": y[:, SHOTS:]}


def inner_steps(it):
    return 2 if it < 3 else 4


def main(iterations=6, on_step=None):
    rng = np.random.default_rng(0)
    params = model.init(jax.random.key(0), jnp.zeros((1, 1)))
    opt_state = outer.init(params)
    for it in range(iterations):
        args = (params, opt_state, sample_tasks(rng), inner_steps(it))
        if on_step is not None:
            on_step(it, meta_step, args)
        params, opt_state, metrics = meta_step(*args)
        print(it, {k: round(float(v), 4) for k, v in metrics.items()})


if __name__ == "__main__":
    main()
