"""Likelihood of a fixed phylogeny with covariate-driven site rates, fitted by gradient descent."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9))  # post-order joins, leaves 0..5, root 10
LEAVES, EDGES, SITES, FEATS, CATS = 6, 10, 14, 5, 3


def init(seed):
    rng = np.random.default_rng(seed)
    arr = lambda *s: jnp.asarray(0.3 * rng.normal(size=s), jnp.float32)
    return {
        "log_len": arr(EDGES) - 1.5,
        "exch": arr(6),
        "freq": arr(4),
        "mlp": {"w1": arr(FEATS, 8), "b1": jnp.zeros(8), "w2": arr(8, CATS), "b2": jnp.zeros(CATS)},
        "cat_rate": jnp.linspace(-1.0, 1.0, CATS),
    }


def rate_matrix(params):
    pi = jax.nn.softmax(params["freq"])
    sym = jnp.zeros((4, 4)).at[jnp.triu_indices(4, 1)].set(jnp.exp(params["exch"]))
    q = (sym + sym.T) * pi
    q = q - jnp.diag(q.sum(-1))
    return q / -(pi @ jnp.diag(q)), pi


def transition(q, t, squarings=5):
    x = q * t / 2**squarings
    eye = jnp.eye(4)
    p = eye + x @ (eye + x @ (eye / 2 + x / 6))
    for _ in range(squarings):
        p = p @ p
    return p


def site_log_lik(params, tips):
    q, pi = rate_matrix(params)
    rates = jnp.exp(params["cat_rate"])
    lens = jnp.exp(params["log_len"])
    per_edge = jax.vmap(transition, (None, 0))
    probs = jax.vmap(lambda r: per_edge(q, lens * r))(rates)

    partial = [jnp.broadcast_to(tips[k], (CATS, SITES, 4)) for k in range(LEAVES)]
    log_scale = jnp.zeros((CATS, SITES))
    for a, b in PAIRS:
        up = jnp.einsum("cij,csj->csi", probs[:, a], partial[a]) * jnp.einsum("cij,csj->csi", probs[:, b], partial[b])
        top = up.max(-1)
        partial.append(up / top[..., None])
        log_scale = log_scale + jnp.log(top)
    return jnp.log(partial[-1] @ pi) + log_scale


def loss_fn(params, tips, feats):
    m = params["mlp"]
    logits = jax.nn.gelu(feats @ m["w1"] + m["b1"]) @ m["w2"] + m["b2"]
    mix = jax.nn.log_softmax(logits, -1).T
    ll = jax.nn.logsumexp(site_log_lik(params, tips) + mix, axis=0)
    return -ll.mean()


def make_optimizer(lr=5e-3, decay=1e-2, clip=2.0):
    mask = lambda p: jax.tree.map(lambda x: x.ndim > 1, p)
    return optax.chain(
        optax.clip_by_global_norm(clip),
        optax.add_decayed_weights(decay, mask),
        optax.scale_by_adam(b2=0.99),
        optax.scale(-lr),
    )


@functools.partial(jax.jit, static_argnums=0, donate_argnums=(1, 2))
def train_step(tx, params, opt_state, tips, feats):
    loss, grads = jax.value_and_grad(loss_fn)(params, tips, feats)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def alignment(rng):
    base = rng.integers(0, 4, SITES)
    rows = np.where(rng.random((LEAVES, SITES)) < 0.25, rng.integers(0, 4, (LEAVES, SITES)), base)
    return np.eye(4, dtype=np.float32)[rows], rng.normal(size=(SITES, FEATS)).astype(np.float32)


def main(steps=5):
    rng = np.random.default_rng(19)
    tx = make_optimizer()
    params = init(19)
    opt_state = tx.init(params)
    for i in range(steps):
        tips, feats = alignment(rng)
        params, opt_state, loss = train_step(tx, params, opt_state, tips, feats)
        print(i, float(loss))


if __name__ == "__main__":
    main()
