"""Linear-chain CRF tagger (ticket slot filling): BiRNN emissions, forward algorithm, optax."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

B, T, VOCAB, EMB, HID, TAGS = 3, 5, 20, 6, 8, 4


class Emitter(nn.Module):
    @nn.compact
    def __call__(self, tokens, mask):
        x = nn.Embed(VOCAB, EMB)(tokens)
        w_f = self.param("w_f", nn.initializers.glorot_uniform(), (EMB + HID, HID))
        w_b = self.param("w_b", nn.initializers.glorot_uniform(), (EMB + HID, HID))
        h_f = run_rnn(w_f, x, mask, reverse=False)
        h_b = run_rnn(w_b, x, mask, reverse=True)
        em = nn.Dense(TAGS)(jnp.concatenate([h_f, h_b], axis=-1))
        trans = self.param("trans", nn.initializers.normal(0.1), (TAGS, TAGS))
        start = self.param("start", nn.initializers.zeros, (TAGS,))
        return em, trans, start


def run_rnn(w, x, mask, reverse):
    def cell(h, inp):
        x_t, m_t = inp
        new = jnp.tanh(jnp.concatenate([x_t, h], axis=-1) @ w)
        h = jnp.where(m_t[:, None], new, h)
        return h, h

    h0 = jnp.zeros((x.shape[0], HID))
    _, hs = jax.lax.scan(cell, h0, (x.swapaxes(0, 1), mask.T), reverse=reverse)
    return hs.swapaxes(0, 1)


def sequence_log_likelihood(em, tags, mask, trans, start):
    """One sequence: em [T, TAGS], tags [T], mask [T]."""
    m = mask.astype(em.dtype)
    unary = em[jnp.arange(T), tags] * m
    pair = trans[tags[:-1], tags[1:]] * m[1:]
    score = start[tags[0]] + unary.sum() + pair.sum()

    def body(alpha, inp):
        e_t, m_t = inp
        new = jax.nn.logsumexp(alpha[:, None] + trans, axis=0) + e_t
        return jnp.where(m_t, new, alpha), None

    alpha, _ = jax.lax.scan(body, start + em[0], (em[1:], mask[1:]))
    return score - jax.nn.logsumexp(alpha)


model = Emitter()
tx = optax.chain(optax.clip_by_global_norm(5.0), optax.rmsprop(1e-2, momentum=0.9))


def loss_fn(params, tokens, tags, mask):
    em, trans, start = model.apply(params, tokens, mask)
    ll = jax.vmap(sequence_log_likelihood, in_axes=(0, 0, 0, None, None))(em, tags, mask, trans, start)
    return -ll.mean() + 1e-3 * jnp.sum(trans ** 2)


def step(params, opt_state, tokens, tags, mask):
    loss, grads = jax.value_and_grad(loss_fn)(params, tokens, tags, mask)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def make_batch(key):
    k1, k2, k3 = jax.random.split(key, 3)
    tokens = jax.random.randint(k1, (B, T), 0, VOCAB)
    tags = jax.random.randint(k2, (B, T), 0, TAGS)
    lengths = jax.random.randint(k3, (B, 1), 2, T + 1)
    return tokens, tags, jnp.arange(T)[None] < lengths


def main(path):
    key = jax.random.PRNGKey(9)
    batch = make_batch(key)
    params = model.init(key, batch[0], batch[2])
    opt_state = tx.init(params)
    lowered = jax.jit(step).lower(params, opt_state, *batch)
    with open(path, "w") as f:
        f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    fast = jax.jit(step)
    for i in range(5):
        params, opt_state, loss = fast(params, opt_state, *make_batch(jax.random.fold_in(key, i)))
        print(i, float(loss), [round(float(p.sum()), 5) for p in jax.tree.leaves(params)])


if __name__ == "__main__":
    main(sys.argv[1])
