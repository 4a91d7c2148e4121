"""RealNVP density model of detector sensor readings (anomaly detection), flax + optax."""
import sys
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

DIM, HID, FLOWS, B = 6, 10, 3, 12


class Conditioner(nn.Module):
    out: int

    @nn.compact
    def __call__(self, x):
        h = nn.swish(nn.Dense(HID)(x))
        return nn.Dense(2 * self.out, kernel_init=nn.initializers.normal(0.02))(h)


class Coupling(nn.Module):
    flip: bool

    @nn.compact
    def __call__(self, x):
        a, b = jnp.split(x, 2, axis=-1)
        if self.flip:
            a, b = b, a
        s, t = jnp.split(Conditioner(b.shape[-1])(a), 2, axis=-1)
        s = jnp.tanh(s) * self.param("gain", nn.initializers.ones, (b.shape[-1],))
        b = (b + t) * jnp.exp(s)
        logdet = jnp.sum(s, axis=-1)
        if self.flip:
            a, b = b, a
        return jnp.concatenate([a, b], axis=-1), logdet


class ActNorm(nn.Module):
    @nn.compact
    def __call__(self, x):
        log_scale = self.param("log_scale", nn.initializers.zeros, (x.shape[-1],))
        shift = self.param("shift", nn.initializers.zeros, (x.shape[-1],))
        return (x + shift) * jnp.exp(log_scale), jnp.sum(log_scale)


class Flow(nn.Module):
    @nn.compact
    def __call__(self, x):
        total = jnp.zeros(x.shape[0])
        for i in range(FLOWS):
            x, ld = ActNorm()(x)
            total = total + ld
            x, ld = Coupling(flip=bool(i % 2))(x)
            total = total + ld
        logp = -0.5 * jnp.sum(x ** 2 + jnp.log(2 * jnp.pi), axis=-1)
        return logp + total


model = Flow()
opt = optax.chain(
    optax.scale_by_adam(b2=0.99),
    optax.clip_by_global_norm(0.5),
    optax.scale(-1e-3),
)


def loss_fn(params, x):
    logp = model.apply({"params": params}, x)
    return -jnp.mean(logp) / DIM, logp


@jax.jit
def step(params, state, ema, x):
    (loss, logp), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, x)
    updates, state = opt.update(grads, state, params)
    params = optax.apply_updates(params, updates)
    ema = optax.incremental_update(params, ema, 0.01)
    return params, state, ema, loss, jnp.quantile(logp, 0.05)


def main(out):
    key = jax.random.PRNGKey(1)
    x = jax.random.normal(key, (B, DIM)) * 1.5 + 0.3
    params = model.init(key, x)["params"]
    state, ema = opt.init(params), params
    low = step.lower(params, state, ema, x)
    with open(out, "w") as f:
        f.write(low.compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(3):
        params, state, ema, loss, q = step(params, state, ema, x)
        print(i, loss, q)


main(sys.argv[1])
