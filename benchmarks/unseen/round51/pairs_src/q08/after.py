"""Fourier neural operator for the viscous Burgers equation; one jitted training step."""
import sys
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn


class SpectralConv(nn.Module):
    ch: int
    modes: int

    @nn.compact
    def __call__(self, x):
        shape = (self.modes, self.ch, self.ch)
        init = nn.initializers.normal(1.0 / self.ch)
        w_re = self.param("w_re", init, shape)
        w_im = self.param("w_im", init, shape)
        n = x.shape[1]
        x_ft = jnp.fft.rfft(x, axis=1)
        low = jnp.einsum("bki,kio->bko", x_ft[:, : self.modes], w_re + 1j * w_im)
        full = jnp.pad(low, ((0, 0), (0, n // 2 + 1 - self.modes), (0, 0)))
        return jnp.fft.irfft(full, n=n, axis=1)


class FNO(nn.Module):
    ch: int = 6
    modes: int = 4
    depth: int = 2

    @nn.compact
    def __call__(self, u):
        grid = jnp.broadcast_to(jnp.linspace(0.0, 1.0, u.shape[1])[None, :, None], u.shape + (1,))
        x = nn.Dense(self.ch, name="lift")(jnp.concatenate([u[..., None], grid], axis=-1))
        for i in range(self.depth):
            y = SpectralConv(self.ch, self.modes, name=f"spec{i}")(x)
            y = y + nn.Dense(self.ch, name=f"skip{i}")(x)
            x = nn.gelu(y) if i + 1 < self.depth else y
        x = nn.gelu(nn.Dense(8, name="proj")(x))
        return nn.Dense(1, name="out")(x)[..., 0]


def make_optimizer():
    schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-3, 20, 500)
    return optax.chain(
        optax.scale_by_adam(b2=0.98),
        optax.clip_by_global_norm(0.5),
        optax.add_decayed_weights(1e-4),
        optax.scale_by_learning_rate(schedule),
    )


model = FNO()
tx = make_optimizer()


def loss_fn(params, u0, u1):
    pred = model.apply({"params": params}, u0)
    dx = 1.0 / u0.shape[1]
    diff = jnp.sqrt(jnp.sum((pred - u1) ** 2, axis=1) * dx + 1e-12)
    ref = jnp.sqrt(jnp.sum(u1 ** 2, axis=1) * dx + 1e-12)
    return jnp.mean(diff / ref)


def step(params, opt_state, u0, u1):
    loss, grads = jax.value_and_grad(loss_fn)(params, u0, u1)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, loss


def main(out):
    rng = np.random.default_rng(0)
    u0 = rng.standard_normal((3, 16)).astype(np.float32)
    u1 = rng.standard_normal((3, 16)).astype(np.float32)
    params = model.init(jax.random.PRNGKey(1), u0)["params"]
    opt_state = tx.init(params)
    lowered = jax.jit(step).lower(params, opt_state, u0, u1)
    with open(out, "w") as f:
        f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    run = jax.jit(step)
    for i in range(4):
        params, opt_state, loss = run(params, opt_state, u0, u1)
        print(i, float(loss))


if __name__ == "__main__":
    main(sys.argv[1])
