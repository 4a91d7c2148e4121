"""Tensor/data parallel MLP classifier on a 2x2 mesh (4 host devices)."""
import os, sys
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))


def local_step(w1, b1, w2, x, y):
    def loss_fn(w1, b1, w2):
        h = jax.nn.relu(x @ w1 + b1)
        logits = jax.lax.psum(h @ w2, "model")
        return jnp.mean(jax.nn.logsumexp(logits, -1) - jnp.sum(logits * y, -1))
    loss, (g1, gb, g2) = jax.value_and_grad(loss_fn, argnums=(0, 1, 2))(w1, b1, w2)
    g1 = jax.lax.pmean(g1, "data")
    gb = jax.lax.pmean(gb, "data")
    g2 = jax.lax.pmean(g2, "data")
    loss = jax.lax.pmean(loss, ("data", "model"))
    lr = 0.1
    return w1 - lr * g1, b1 - lr * gb, w2 - lr * g2, loss


specs = (P(None, "model"), P("model"), P("model", None))
train_step = jax.jit(jax.shard_map(local_step, mesh=mesh, in_specs=specs + (P("data"), P("data")),
                                   out_specs=specs + (P(),), check_vma=False))

if __name__ == "__main__":
    rng = np.random.default_rng(1)
    w1 = jnp.asarray(rng.normal(size=(20, 32)) * 0.1, jnp.float32)
    b1 = jnp.zeros(32)
    w2 = jnp.asarray(rng.normal(size=(32, 10)) * 0.1, jnp.float32)
    x = jnp.asarray(rng.normal(size=(16, 20)), jnp.float32)
    y = jax.nn.one_hot(rng.integers(0, 10, 16), 10)
    if len(sys.argv) > 1:
        open(sys.argv[1], "w").write(train_step.lower(w1, b1, w2, x, y).compiler_ir("hlo").as_hlo_text())
    for _ in range(3):
        w1, b1, w2, loss = train_step(w1, b1, w2, x, y)
    print(loss)
