"""Pair representation of a protein (triangle updates) trained to predict a
distogram; one example per call, mapped over the batch."""
import sys

import jax
import jax.numpy as jnp
import optax

BINS = 8


def init(key, residues=20, width=6, inner=5, blocks=2):
    def dense(k, n, m):
        return {"w": jax.random.normal(k, (n, m)) * n ** -0.5,
                "b": jnp.zeros(m)}

    keys = iter(jax.random.split(key, 40))
    params = {
        "left": jax.random.normal(next(keys), (residues, width)),
        "right": jax.random.normal(next(keys), (residues, width)),
        "out": dense(next(keys), width, BINS),
        "blocks": [],
    }
    for _ in range(blocks):
        params["blocks"].append({
            "scale": jnp.ones(width),
            "a": dense(next(keys), width, 2 * inner),
            "b": dense(next(keys), width, 2 * inner),
            "o": dense(next(keys), inner, width),
            "g": dense(next(keys), width, width),
        })
    return params


def linear(p, x):
    return jnp.einsum("...i,ij->...j", x, p["w"]) + p["b"]


def rms_norm(x, scale):
    var = jnp.mean(x * x, -1, keepdims=True)
    return x * jax.lax.rsqrt(var + 1e-6) * scale


def gated(p, x, mask):
    value, gate = jnp.split(linear(p, x), 2, -1)
    return value * jax.nn.sigmoid(gate) * mask[..., None]


def triangle(p, z, mask, outgoing):
    x = rms_norm(z, p["scale"])
    a = gated(p["a"], x, mask)
    b = gated(p["b"], x, mask)
    if outgoing:
        y = jnp.einsum("ikc,jkc->ijc", a, b)
    else:
        y = jnp.einsum("kic,kjc->ijc", a, b)
    return z + linear(p["o"], y) * jax.nn.sigmoid(linear(p["g"], x))


def distogram(params, seq, valid):
    z = params["left"][seq][:, None] + params["right"][seq][None, :]
    mask = valid[:, None] * valid[None, :]
    for i, p in enumerate(params["blocks"]):
        z = triangle(p, z, mask, i % 2 == 0)
    z = z + jnp.swapaxes(z, 0, 1)
    return linear(params["out"], z)


def example_loss(params, seq, valid, dist):
    logits = distogram(params, seq, valid)
    edges = jnp.linspace(3.0, 20.0, BINS - 1)
    label = jnp.sum(dist[..., None] > edges, -1)
    xent = optax.softmax_cross_entropy_with_integer_labels(logits, label)
    mask = valid[:, None] * valid[None, :]
    return jnp.sum(xent * mask) / (1e-6 + jnp.sum(mask))


def loss_fn(params, batch):
    losses = jax.vmap(example_loss, (None, 0, 0, 0))(
        params, batch["seq"], batch["valid"], batch["dist"])
    return jnp.mean(losses)


def main():
    params = init(jax.random.PRNGKey(0))
    lr, mom = 2e-2, 0.9
    state = jax.tree.map(jnp.zeros_like, params)

    @jax.jit
    def train_step(params, state, batch):
        loss, grads = jax.value_and_grad(loss_fn)(params, batch)
        state = jax.tree.map(lambda m, g: mom * m + g, state, grads)
        params = jax.tree.map(lambda p, m: p - lr * m, params, state)
        return params, state, loss

    def batch(i, n=3, r=6):
        k = jax.random.split(jax.random.PRNGKey(i), 3)
        length = jax.random.randint(k[0], (n, 1), 4, r + 1)
        return {"seq": jax.random.randint(k[1], (n, r), 0, 20),
                "valid": (jnp.arange(r)[None] < length).astype(jnp.float32),
                "dist": jax.random.uniform(k[2], (n, r, r)) * 25}

    lowered = train_step.lower(params, state, batch(0))
    with open(sys.argv[1], "w") as f:
        f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(6):
        params, state, loss = train_step(params, state, batch(i))
        total = sum(jnp.sum(jnp.abs(x)) for x in jax.tree.leaves(params))
        print(i, round(float(loss), 6), round(float(total), 4))


if __name__ == "__main__":
    main()
