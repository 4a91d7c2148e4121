"""Latent ODE for continuous glucose monitoring: GRU-free encoder, RK4 decoder, irregular masks."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

B, T, COV, Z = 4, 8, 3, 5


class Dynamics(nn.Module):
    @nn.compact
    def __call__(self, z, u):
        h = nn.softplus(nn.Dense(10)(jnp.concatenate([z, u], axis=-1)))
        return nn.Dense(Z)(h)


class LatentODE(nn.Module):
    def setup(self):
        self.enc1 = nn.Dense(12)
        self.enc2 = nn.Dense(Z)
        self.f = Dynamics()
        self.dec = nn.Dense(1)
        self.log_noise = self.param("log_noise", nn.initializers.zeros, ())

    def __call__(self, history, cov, dt):
        z0 = jnp.tanh(self.enc2(nn.relu(self.enc1(history))))

        def rk4(z, xs):
            u, h = xs
            k1 = self.f(z, u)
            k2 = self.f(z + 0.5 * h * k1, u)
            k3 = self.f(z + 0.5 * h * k2, u)
            k4 = self.f(z + h * k3, u)
            z = z + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
            return z, z

        if self.is_initializing():
            self.f(z0, cov[0])
        _, zs = jax.lax.scan(rk4, z0, (cov, dt))
        return self.dec(zs)[..., 0], self.log_noise


def nll(pred, log_noise, y, mask):
    r = (y - pred) * jnp.exp(-log_noise)
    return jnp.sum(mask * (0.5 * r ** 2 + log_noise)) / jnp.maximum(jnp.sum(mask), 1.0)


def decay_mask(params):
    return jax.tree_util.tree_map(lambda p: p.ndim > 1, params)


def make_optimizer(steps=200):
    schedule = optax.cosine_decay_schedule(3e-3, steps)
    return optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.scale_by_adam(b2=0.99),
        optax.add_decayed_weights(1e-2, mask=decay_mask),
        optax.scale_by_learning_rate(schedule),
    )


def make_step(model, tx):
    def loss_fn(params, batch):
        pred, log_noise = model.apply(params, batch["hist"], batch["cov"], batch["dt"])
        return nll(pred, log_noise, batch["y"], batch["mask"])

    def step(params, opt_state, batch):
        loss, grads = jax.value_and_grad(loss_fn)(params, batch)
        updates, opt_state = tx.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        return params, opt_state, {"loss": loss, "grad_norm": optax.global_norm(grads)}

    return step


def main(out):
    rng = np.random.default_rng(8)
    f = lambda *s: jnp.asarray(rng.normal(size=s), jnp.float32)
    batch = dict(hist=f(B, 6), cov=f(T, B, COV), dt=jnp.abs(f(T, B, 1)) * 0.2, y=f(T, B),
                 mask=jnp.asarray(rng.random((T, B)) < 0.7, jnp.float32))
    model = LatentODE()
    params = model.init(jax.random.PRNGKey(2), batch["hist"], batch["cov"], batch["dt"])
    tx = make_optimizer()
    opt_state = tx.init(params)
    jitted = jax.jit(make_step(model, tx))
    low = jitted.lower(params, opt_state, batch)
    open(out, "w").write(low.compiler_ir("hlo").as_hlo_module().to_string())
    for _ in range(4):
        params, opt_state, logs = jitted(params, opt_state, batch)
        print(float(logs["loss"]), float(logs["grad_norm"]))


if __name__ == "__main__":
    main(sys.argv[1])
