"""RNA base-pair prediction: a pair track with triangle multiplication (both directions), one block. JAX, flax, optax."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

LEN, ALPHABET, SINGLE, PAIR, BATCH = 6, 5, 10, 8, 2
tx = optax.lion(2e-4, weight_decay=1e-2)


class TriangleMultiplication(nn.Module):
    outgoing: bool

    @nn.compact
    def __call__(self, z, mask):
        h = nn.LayerNorm(name="norm_in")(z)
        left, right = jnp.split(nn.Dense(2 * PAIR, name="proj")(h), 2, -1)
        gate_l, gate_r = jnp.split(nn.sigmoid(nn.Dense(2 * PAIR, name="gate")(h)), 2, -1)
        left = left * gate_l * mask
        right = right * gate_r * mask
        if self.outgoing:
            x = jnp.einsum("bikc,bjkc->bijc", left, right)
        else:
            x = jnp.einsum("bkic,bkjc->bijc", left, right)
        return nn.Dense(PAIR, name="out")(x)


class PairNet(nn.Module):
    @nn.compact
    def __call__(self, seq, valid):
        s = nn.Embed(ALPHABET, SINGLE, name="embed")(seq)
        z = nn.Dense(PAIR, name="row")(s)[:, :, None] + nn.Dense(PAIR, name="col")(s)[:, None, :]
        dist = jnp.arange(LEN)[:, None] - jnp.arange(LEN)[None, :]
        z = z + nn.Embed(2 * LEN - 1, PAIR, name="relpos")(dist + LEN - 1)
        mask = (valid[:, :, None] * valid[:, None, :])[..., None]
        z = z + TriangleMultiplication(True, name="tri_out")(z, mask)
        z = z + TriangleMultiplication(False, name="tri_in")(z, mask)
        z = 0.5 * (z + jnp.swapaxes(z, 1, 2))
        return nn.Dense(1, name="logit")(nn.relu(z))[..., 0]


net = PairNet()


def loss_fn(params, seq, valid, pairs):
    logits = net.apply(params, seq, valid)
    mask = valid[:, :, None] * valid[:, None, :]
    bce = optax.sigmoid_binary_cross_entropy(logits, pairs)
    weight = mask * jnp.where(pairs > 0, 4.0, 1.0)
    return jnp.sum(weight * bce) / jnp.maximum(jnp.sum(weight), 1.0)


def step(params, opt_state, ema, seq, valid, pairs):
    loss, grads = jax.value_and_grad(loss_fn)(params, seq, valid, pairs)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    ema = optax.incremental_update(params, ema, 0.01)
    return params, opt_state, ema, loss


def make_batch(i):
    k = jax.random.split(jax.random.key(50 + i), 3)
    n = jax.random.randint(k[0], (BATCH, 1), 4, LEN + 1)
    pairs = jax.random.bernoulli(k[1], 0.2, (BATCH, LEN, LEN)).astype(jnp.float32)
    return (
        jax.random.randint(k[2], (BATCH, LEN), 0, ALPHABET),
        (jnp.arange(LEN)[None] < n).astype(jnp.float32),
        jnp.maximum(pairs, jnp.swapaxes(pairs, 1, 2)),
    )


def main(path):
    seq, valid, pairs = make_batch(0)
    params = net.init(jax.random.key(1), seq, valid)
    opt_state, ema = tx.init(params), params
    lowered = jax.jit(step).lower(params, opt_state, ema, seq, valid, pairs)
    with open(path, "w") as f:
        f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    run = jax.jit(step)
    for i in range(4):
        params, opt_state, ema, loss = run(params, opt_state, ema, *make_batch(i))
        print(i, float(loss))


if __name__ == "__main__":
    main(sys.argv[1])
