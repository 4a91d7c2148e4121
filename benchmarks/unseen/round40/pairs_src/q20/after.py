"""Proteins and ligands: contrastive pairs, accumulated over micro-batches (flax)."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

MICRO, PAIRS, LEN, VOCAB, BITS, DIM = 3, 5, 10, 21, 16, 8


class Protein(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        m = (tokens > 0)[..., None].astype(jnp.float32)
        h = nn.Embed(VOCAB, DIM)(tokens) * m
        h = nn.relu(nn.Conv(DIM, (3,), padding="SAME")(h)) * m
        h = h.sum(1) / jnp.maximum(m.sum(1), 1.0)
        return nn.Dense(DIM)(h)


class Ligand(nn.Module):
    @nn.compact
    def __call__(self, bits):
        h = nn.relu(nn.Dense(12)(bits))
        return nn.Dense(DIM)(h)


class Matcher(nn.Module):
    @nn.compact
    def __call__(self, tokens, bits):
        p, l = Protein()(tokens), Ligand()(bits)
        p = p / jnp.sqrt(jnp.sum(p * p, -1, keepdims=True) + 1e-6)
        l = l / jnp.sqrt(jnp.sum(l * l, -1, keepdims=True) + 1e-6)
        temp = self.param("log_temp", lambda k: jnp.asarray(2.0))
        return jnp.exp(jnp.minimum(temp, 4.6)) * p @ l.T


model = Matcher()
tx = optax.lamb(2e-3, weight_decay=1e-2)


def loss_fn(params, tokens, bits):
    sim = model.apply(params, tokens, bits)
    label = jnp.arange(PAIRS)
    rows = optax.softmax_cross_entropy_with_integer_labels(sim, label)
    cols = optax.softmax_cross_entropy_with_integer_labels(sim.T, label)
    return 0.5 * (rows.mean() + cols.mean())


def accumulate(params, tokens, bits):
    def body(carry, mb):
        loss, acc = carry
        l, g = jax.value_and_grad(loss_fn)(params, *mb)
        return (loss + l, jax.tree_util.tree_map(jnp.add, acc, g)), None

    zero = jax.tree_util.tree_map(jnp.zeros_like, params)
    (loss, grads), _ = jax.lax.scan(body, (jnp.zeros(()), zero), (tokens, bits))
    return loss / MICRO, grads


def step(params, opt_state, tokens, bits):
    loss, grads = accumulate(params, tokens, bits)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def batch(seed):
    k = jax.random.split(jax.random.PRNGKey(seed), 2)
    tokens = jax.random.randint(k[0], (MICRO, PAIRS, LEN), 0, VOCAB)
    bits = jax.random.bernoulli(k[1], 0.3, (MICRO, PAIRS, BITS)).astype(jnp.float32)
    return tokens, bits


if __name__ == "__main__":
    t, b = batch(0)
    params = model.init(jax.random.PRNGKey(0), t[0], b[0])
    state = tx.init(params)
    low = jax.jit(step).lower(params, state, t, b)
    open(sys.argv[1], "w").write(low.compiler_ir("hlo").as_hlo_module().to_string())
    run = jax.jit(step)
    for it in range(4):
        params, state, loss = run(params, state, *batch(it))
        print(it, "%.7f" % float(loss))
