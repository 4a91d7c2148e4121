"""Character LSTM with RMSprop, everything by hand."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

VOCAB = 24
HIDDEN = 20
SEQ = 10
BATCH = 5
LR, RHO, EPS, CLIP = 3e-3, 0.9, 1e-6, 1.0


def init(key):
    k = jax.random.split(key, 11)
    glorot = lambda kk, i, o: jax.random.normal(kk, (i, o)) * np.sqrt(2.0 / (i + o))
    params = {"embed": jax.random.normal(k[0], (VOCAB, HIDDEN)) * 0.1}
    for n, gate in enumerate(("input", "forget", "cell", "output")):
        params[f"w_{gate}"] = glorot(k[1 + n], HIDDEN, HIDDEN)
        params[f"u_{gate}"] = glorot(k[5 + n], HIDDEN, HIDDEN)
        params[f"b_{gate}"] = jnp.ones(HIDDEN) if gate == "forget" else jnp.zeros(HIDDEN)
    params["w_logits"] = glorot(k[9], HIDDEN, VOCAB)
    params["b_logits"] = jnp.zeros(VOCAB)
    return params


def gate(p, name, x, h):
    return x @ p[f"w_{name}"] + h @ p[f"u_{name}"] + p[f"b_{name}"]


def cell(p, carry, x):
    h, c = carry
    i = jax.nn.sigmoid(gate(p, "input", x, h))
    f = jax.nn.sigmoid(gate(p, "forget", x, h))
    g = jnp.tanh(gate(p, "cell", x, h))
    o = jax.nn.sigmoid(gate(p, "output", x, h))
    c = f * c + i * g
    h = o * jnp.tanh(c)
    return (h, c), h


def logits_fn(p, tokens):
    x = p["embed"][tokens]
    zeros = jnp.zeros((tokens.shape[0], HIDDEN))
    _, hs = jax.lax.scan(partial(cell, p), (zeros, zeros), x.swapaxes(0, 1))
    return hs.swapaxes(0, 1) @ p["w_logits"] + p["b_logits"]


def loss_fn(p, tokens, targets):
    logp = jax.nn.log_softmax(logits_fn(p, tokens))
    onehot = jax.nn.one_hot(targets, VOCAB)
    return -jnp.mean(jnp.sum(onehot * logp, axis=-1))


def clip_by_norm(grads):
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
    scale = jnp.minimum(1.0, CLIP / (norm + 1e-6))
    return jax.tree.map(lambda g: g * scale, grads)


def update(params, acc, tokens, targets):
    loss, grads = jax.value_and_grad(loss_fn)(params, tokens, targets)
    grads = clip_by_norm(grads)
    acc = jax.tree.map(lambda a, g: RHO * a + (1 - RHO) * g * g, acc, grads)
    params = jax.tree.map(lambda p, a, g: p - LR * g / jnp.sqrt(a + EPS), params, acc, grads)
    return params, acc, loss


def stream(n, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        start = rng.integers(0, VOCAB, (BATCH, 1))
        stride = rng.integers(1, 4, (BATCH, 1))
        seq = (start + stride * np.arange(SEQ + 1)) % VOCAB
        yield seq[:, :-1].astype(np.int32), seq[:, 1:].astype(np.int32)


def main():
    params = init(jax.random.PRNGKey(0))
    acc = jax.tree.map(jnp.zeros_like, params)
    train_step = jax.jit(update)
    for i, (tokens, targets) in enumerate(stream(6)):
        params, acc, loss = train_step(params, acc, tokens, targets)
        print(i, f"{float(loss):.5f}")


if __name__ == "__main__":
    main()
