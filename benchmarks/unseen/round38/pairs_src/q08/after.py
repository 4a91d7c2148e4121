"""Soft mixture of experts over residue windows: secondary structure (H, E, C)."""
import sys

import jax
import jax.numpy as jnp
import optax

B, L, D, H, E, C = 3, 10, 12, 8, 3, 3
AA = 21


def init(key):
    ks = jax.random.split(key, 8)

    def w(k, *shape):
        return jax.random.normal(k, shape) / jnp.sqrt(shape[-2])

    return {
        "embed": 0.5 * jax.random.normal(ks[0], (AA, D)),
        "window": w(ks[1], 3, D, D),
        "norm": jnp.ones((D,)),
        "gate": w(ks[2], D, E),
        "experts": {"up": w(ks[3], E, D, H), "lin": w(ks[4], E, D, H), "down": w(ks[5], E, H, D)},
        "head": w(ks[6], D, C),
        "head_b": jnp.zeros((C,)),
    }


def rms_norm(x, g):
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-6) * g


def expert(p, x):
    return (jax.nn.silu(x @ p["up"]) * (x @ p["lin"])) @ p["down"]


def moe(p, gate, x):
    probs = jax.nn.softmax(x @ gate, axis=-1)
    outs = jax.vmap(expert, in_axes=(0, None))(p, x)
    return jnp.einsum("ble,ebld->bld", probs, outs), probs


def shift(x, by):
    return jax.lax.pad(x, 0.0, ((0, 0, 0), (by, -by, 0), (0, 0, 0)))


def forward(p, seq):
    x = jnp.take(p["embed"], seq, axis=0)
    taps = jnp.stack([shift(x, 1), x, shift(x, -1)])
    x = x + jnp.tanh(jnp.einsum("kbld,kdm->blm", taps, p["window"]))
    y, probs = moe(p["experts"], p["gate"], rms_norm(x, p["norm"]))
    return (x + y) @ p["head"] + p["head_b"], probs


def loss_fn(p, seq, label, mask):
    logits, probs = forward(p, seq)
    nll = optax.softmax_cross_entropy_with_integer_labels(logits, label)
    ce = jnp.sum(nll * mask) / jnp.sum(mask)
    load = jnp.sum(probs * mask[..., None], axis=(0, 1)) / jnp.sum(mask)
    return ce + 0.01 * E * jnp.sum(load * load)


opt = optax.lion(2e-3, weight_decay=1e-2)


@jax.jit
def step(p, state, seq, label, mask):
    loss, grads = jax.value_and_grad(loss_fn)(p, seq, label, mask)
    updates, state = opt.update(grads, state, p)
    return optax.apply_updates(p, updates), state, loss


def batch(key):
    k1, k2, k3 = jax.random.split(key, 3)
    return (jax.random.randint(k1, (B, L), 0, AA), jax.random.randint(k2, (B, L), 0, C),
            (jax.random.uniform(k3, (B, L)) < 0.8).astype(jnp.float32))


def main(path):
    p = init(jax.random.PRNGKey(0))
    state = opt.init(p)
    args = batch(jax.random.PRNGKey(1))
    with open(path, "w") as f:
        f.write(step.lower(p, state, *args).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(5):
        p, state, loss = step(p, state, *batch(jax.random.PRNGKey(i)))
        print(i, float(loss), [round(float(jnp.abs(x).sum()), 4) for x in jax.tree.leaves(p)])


if __name__ == "__main__":
    main(sys.argv[1])
