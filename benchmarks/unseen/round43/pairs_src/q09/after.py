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


def path_score(em, tags, mask, trans, start):
    m = mask.astype(em.dtype)
    onehot = jax.nn.one_hot(tags, TAGS, dtype=em.dtype)
    unary = jnp.einsum("btk,btk,bt->b", em, onehot, m)
    pair = jnp.einsum("bti,ij,btj,bt->b", onehot[:, :-1], trans, onehot[:, 1:], m[:, 1:])
    return onehot[:, 0] @ start + unary + pair


def log_partition(em, mask, trans, start):
    """Whole batch at once: em [B, T, TAGS], mask [B, T]."""
    alpha = start + em[:, 0]
    for t in range(1, em.shape[1]):
        new = jax.nn.logsumexp(alpha[:, :, None] + trans[None], axis=1) + em[:, t]
        alpha = jnp.where(mask[:, t, None], new, alpha)
    return jax.nn.logsumexp(alpha, axis=-1)


model = Emitter()
tx = optax.chain(optax.clip_by_global_norm(5.0), optax.rmsprop(1e-2, momentum=0.9))


def loss_fn(params, tokens, tags, mask):
    em, trans, start = model.apply(params, tokens, mask)
    nll = log_partition(em, mask, trans, start) - path_score(em, tags, mask, trans, start)
    return nll.mean() + 1e-3 * jnp.sum(trans ** 2)


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
