import os

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax


class SetEncoder(nn.Module):
    width: int = 24

    @nn.compact
    def __call__(self, points):
        h = nn.Dense(self.width, name="lift")(points)
        h = nn.tanh(h)
        h = nn.Dense(self.width, name="mid")(h)
        h = nn.tanh(h)
        pooled = jnp.concatenate([h.mean(axis=-2), h.max(axis=-2)], axis=-1)
        h = nn.LayerNorm(name="norm")(pooled)
        return nn.Dense(12, name="embed")(h)


def contrastive_loss(model, params, anchors, positives, tau=0.2):
    a = model.apply({"params": params}, anchors)
    p = model.apply({"params": params}, positives)
    a = a / jnp.sqrt(jnp.sum(a * a, axis=-1, keepdims=True) + 1e-8)
    p = p / jnp.sqrt(jnp.sum(p * p, axis=-1, keepdims=True) + 1e-8)
    sim = a @ p.T / tau
    labels = jnp.arange(sim.shape[0])
    loss = optax.softmax_cross_entropy_with_integer_labels(sim, labels)
    back = optax.softmax_cross_entropy_with_integer_labels(sim.T, labels)
    return 0.5 * (loss.mean() + back.mean())


def make_step(model, tx):
    @jax.jit
    def step(params, opt_state, anchors, positives):
        loss, grads = jax.value_and_grad(
            lambda p: contrastive_loss(model, p, anchors, positives))(params)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    return step


def clouds(rng, n=8, k=10):
    base = rng.normal(size=(n, 1, 3)) + 0.3 * rng.normal(size=(n, k, 3))
    jitter = base + 0.05 * rng.normal(size=base.shape)
    return base.astype(np.float32), jitter.astype(np.float32)


def main(steps=6):
    rng = np.random.default_rng(0)
    model = SetEncoder()
    anchors, positives = clouds(rng)
    params = model.init(jax.random.key(0), anchors)["params"]
    tx = optax.adam(3e-3)
    opt_state = tx.init(params)
    step = make_step(model, tx)
    out = os.environ.get("LOWER_TO")
    if out:
        lowered = step.lower(params, opt_state, anchors, positives)
        with open(out, "w") as f:
            f.write(lowered.compiler_ir(dialect="hlo").as_hlo_text())
    for i in range(steps):
        params, opt_state, loss = step(params, opt_state, anchors, positives)
        print(i, f"{float(loss):.6f}")
        anchors, positives = clouds(rng)
    print("abs sum", f"{sum(float(jnp.abs(x).sum()) for x in jax.tree.leaves(params)):.4f}")


if __name__ == "__main__":
    main()
