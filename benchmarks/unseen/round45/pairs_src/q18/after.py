"""RealNVP density estimator for calorimeter shower features (JAX / flax / optax)."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

OUT = sys.argv[1]
B, D, COND = 8, 6, 2


class Coupling(nn.Module):
    flip: bool
    width: int = 12

    @nn.compact
    def __call__(self, x, cond):
        x1, x2 = jnp.split(x, 2, axis=-1)
        if self.flip:
            x1, x2 = x2, x1
        h = jnp.concatenate([x1, cond], axis=-1)
        h = nn.silu(nn.Dense(self.width, name="fc")(h))
        st = nn.Dense(D, name="st", kernel_init=nn.initializers.normal(0.02))(h)
        s, t = jnp.split(st, 2, axis=-1)
        s = 1.5 * jnp.tanh(s / 1.5)
        y2 = x2 * jnp.exp(s) + t
        y = jnp.concatenate([y2, x1] if self.flip else [x1, y2], axis=-1)
        return y, s.sum(-1)


class ActNorm(nn.Module):
    @nn.compact
    def __call__(self, x):
        log_scale = self.param("log_scale", nn.initializers.zeros, (D,))
        shift = self.param("shift", nn.initializers.zeros, (D,))
        return (x + shift) * jnp.exp(log_scale), jnp.broadcast_to(log_scale.sum(), x.shape[:1])


class Flow(nn.Module):
    depth: int = 3

    @nn.compact
    def __call__(self, x, cond):
        logdet = jnp.zeros(x.shape[0])
        for i in range(self.depth):
            x, ld = ActNorm(name=f"an{i}")(x)
            logdet = logdet + ld
            x, ld = Coupling(flip=bool(i % 2), name=f"cp{i}")(x, cond)
            logdet = logdet + ld
        return x, logdet


def nll(params, model, x, cond, weight):
    z, logdet = model.apply(params, x, cond)
    logp = -0.5 * (z**2 + jnp.log(2 * jnp.pi)).sum(-1) + logdet
    return -(weight * logp).sum() / weight.sum()


model = Flow()
schedule = optax.cosine_decay_schedule(2e-3, decay_steps=200, alpha=0.1)
tx = optax.chain(
    optax.scale_by_adam(b2=0.99),
    optax.clip_by_global_norm(1.0),
    optax.scale_by_learning_rate(schedule),
)


def step(params, opt_state, x, cond, weight):
    loss, grads = jax.value_and_grad(nll)(params, model, x, cond, weight)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"nll": loss, "gnorm": optax.global_norm(grads)}


def batch(key):
    kx, kc, kw = jax.random.split(key, 3)
    cond = jax.random.uniform(kc, (B, COND))
    x = jax.random.normal(kx, (B, D)) * (1 + cond[:, :1]) + cond[:, 1:]
    return x, cond, jax.random.uniform(kw, (B,), minval=0.5, maxval=2.0)


def main():
    key = jax.random.PRNGKey(0)
    x, cond, w = batch(key)
    params = model.init(jax.random.PRNGKey(1), x, cond)
    opt_state = tx.init(params)
    jstep = jax.jit(step)
    with open(OUT, "w") as f:
        f.write(jstep.lower(params, opt_state, x, cond, w).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(4):
        params, opt_state, m = jstep(params, opt_state, *batch(jax.random.fold_in(key, i)))
        print(i, float(m["nll"]), float(m["gnorm"]))


if __name__ == "__main__":
    main()
