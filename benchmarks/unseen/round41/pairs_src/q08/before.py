"""Physics-informed net for 1-d groundwater flow (heat-type equation), flax + optax.

usage: before.py OUT      writes the HLO of one training step
"""
import sys
import jax
import jax.numpy as jnp
import optax
from flax import linen as nn


class HeadNet(nn.Module):
    width: int = 16
    depth: int = 2

    @nn.compact
    def __call__(self, x, t):
        h = jnp.stack([x, t])
        freq = self.param("freq", nn.initializers.normal(1.0), (2, self.width // 2))
        proj = h @ freq
        h = jnp.concatenate([jnp.sin(proj), jnp.cos(proj)])
        for _ in range(self.depth):
            h = nn.tanh(nn.Dense(self.width)(h))
        return nn.Dense(1)(h)[0]


model = HeadNet()


def transmissivity(params):
    return jax.nn.softplus(params["log_k"])


def residual(params, x, t):
    u = lambda x, t: model.apply({"params": params["net"]}, x, t)
    u_t = jax.grad(u, argnums=1)(x, t)
    u_xx = jax.grad(jax.grad(u, argnums=0), argnums=0)(x, t)
    recharge = 0.1 * jnp.sin(jnp.pi * x)
    return u_t - transmissivity(params) * u_xx - recharge


def loss_fn(params, batch):
    u = jax.vmap(lambda x, t: model.apply({"params": params["net"]}, x, t))
    res = jax.vmap(lambda x, t: residual(params, x, t))(batch["xc"], batch["tc"])
    pde = jnp.mean(res**2)
    initial = jnp.mean((u(batch["x0"], jnp.zeros_like(batch["x0"])) - batch["u0"]) ** 2)
    wells = jnp.mean(optax.losses.huber_loss(u(batch["xw"], batch["tw"]), batch["uw"], delta=0.1))
    return pde + 10.0 * initial + 5.0 * wells, (pde, initial, wells)


schedule = optax.cosine_decay_schedule(1e-3, 1000)
tx = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.scale_by_adam(b2=0.99),
    optax.scale_by_schedule(lambda n: -schedule(n)),
)


def train_step(params, opt_state, batch):
    (loss, parts), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, loss, parts


def main(out):
    key = jax.random.PRNGKey(0)
    params = {
        "net": model.init(key, jnp.float32(0.0), jnp.float32(0.0))["params"],
        "log_k": jnp.float32(0.0),
    }
    opt_state = tx.init(params)
    sizes = {"xc": 32, "tc": 32, "x0": 8, "u0": 8, "xw": 5, "tw": 5, "uw": 5}
    keys = jax.random.split(key, len(sizes))
    batch = {n: jax.random.uniform(k, (s,)) for (n, s), k in zip(sizes.items(), keys)}
    step = jax.jit(train_step)
    with open(out, "w") as f:
        f.write(step.lower(params, opt_state, batch).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(3):
        params, opt_state, loss, _ = step(params, opt_state, batch)
        print(i, float(loss))


if __name__ == "__main__":
    main(sys.argv[1])
