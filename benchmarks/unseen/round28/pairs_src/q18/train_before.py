"""Data parallel tabular regression, one gradient exchange per step."""
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, PartitionSpec as P

try:
    from jax import shard_map
except ImportError:
    from jax.experimental.shard_map import shard_map

CFG = {
    "features": 9,
    "width": 24,
    "depth": 2,
    "per_device": 4,
    "max_norm": 0.5,
    "lr": 3e-3,
    "steps": 3,
}


class ResidualMLP(nn.Module):
    width: int
    depth: int

    @nn.compact
    def __call__(self, x):
        x = nn.Dense(self.width, name="embed")(x)
        for i in range(self.depth):
            h = nn.LayerNorm(name=f"ln_{i}")(x)
            h = nn.Dense(self.width, name=f"fc_{i}")(h)
            x = x + nn.swish(h)
        mean, raw = jnp.split(nn.Dense(2, name="out")(x), 2, axis=-1)
        return mean[:, 0], nn.softplus(raw[:, 0]) + 1e-3


def gaussian_nll(mean, scale, y):
    return jnp.mean(0.5 * jnp.square((y - mean) / scale) + jnp.log(scale))


def scale_to_norm(grads, max_norm):
    norm = optax.global_norm(grads)
    factor = jnp.minimum(1.0, max_norm / (norm + 1e-6))
    return jax.tree.map(lambda g: g * factor, grads), norm


def build_step(model, tx, mesh, max_norm):

    def local_step(params, opt_state, x, y):
        def objective(p):
            mean, scale = model.apply({"params": p}, x)
            return gaussian_nll(mean, scale, y)

        loss, grads = jax.value_and_grad(objective)(params)
        grads, norm = scale_to_norm(grads, max_norm)
        grads = jax.lax.pmean(grads, axis_name="dp")
        loss = jax.lax.pmean(loss, axis_name="dp")
        norm = jax.lax.pmean(norm, axis_name="dp")
        updates, opt_state = tx.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        return params, opt_state, loss, norm

    sharded = shard_map(
        local_step,
        mesh=mesh,
        in_specs=(P(), P(), P("dp"), P("dp")),
        out_specs=(P(), P(), P(), P()),
        check_vma=False,
    )
    return jax.jit(sharded, donate_argnums=(0, 1))


def stream(cfg, devices):
    rng = np.random.default_rng(0)
    w = rng.normal(size=cfg["features"])
    n = cfg["per_device"] * devices
    for _ in range(cfg["steps"]):
        x = rng.normal(size=(n, cfg["features"])).astype(np.float32)
        y = x @ w + 0.1 * rng.standard_t(2, size=n)
        yield x, y.astype(np.float32)


def main(cfg=CFG):
    devices = np.array(jax.devices())
    mesh = Mesh(devices, ("dp",))
    model = ResidualMLP(cfg["width"], cfg["depth"])
    params = model.init(jax.random.key(0), jnp.zeros((1, cfg["features"])))["params"]
    tx = optax.adamw(cfg["lr"], b2=0.99, weight_decay=1e-3)
    opt_state = tx.init(params)
    train_step = build_step(model, tx, mesh, cfg["max_norm"])
    for i, (x, y) in enumerate(stream(cfg, len(devices))):
        params, opt_state, loss, norm = train_step(params, opt_state, x, y)
        print(i, float(loss), float(norm))


if __name__ == "__main__":
    main()
