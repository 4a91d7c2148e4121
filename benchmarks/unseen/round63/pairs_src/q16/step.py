"""Cross-encoder reranker, listwise loss over the candidates of one query."""
import os

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

VOCAB = 200
BUCKETS = (16, 24, 48)


def relative_bucket(rel, num_buckets=8, max_distance=32):
    half = num_buckets // 2
    side = jnp.where(rel > 0, half, 0)
    n = jnp.abs(rel)
    exact = half // 2
    far = exact + (jnp.log(jnp.maximum(n, 1) / exact) / np.log(max_distance / exact)
                   * (half - exact)).astype(jnp.int32)
    return side + jnp.where(n < exact, n, jnp.minimum(far, half - 1))


class Block(nn.Module):
    dim: int
    heads: int

    @nn.compact
    def __call__(self, x, mask, bias):
        b, l, _ = x.shape
        h = nn.RMSNorm()(x)
        q, k, v = jnp.split(nn.Dense(3 * self.dim, use_bias=False)(h), 3, -1)
        q, k, v = (a.reshape(b, l, self.heads, -1) for a in (q, k, v))
        s = jnp.einsum("bqhd,bkhd->bhqk", q, k) + bias
        s = jnp.where(mask[:, None, None, :], s, -1e9)
        o = jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(s), v).reshape(b, l, self.dim)
        x = x + nn.Dense(self.dim, use_bias=False)(o)
        h = nn.RMSNorm()(x)
        return x + nn.Dense(self.dim, use_bias=False)(nn.gelu(nn.Dense(2 * self.dim, use_bias=False)(h)))


class Reranker(nn.Module):
    dim: int = 16
    heads: int = 2

    @nn.compact
    def __call__(self, ids):
        mask = ids != 0
        x = nn.Embed(VOCAB, self.dim)(ids)
        pos = jnp.arange(ids.shape[1])
        table = self.param("rel", nn.initializers.normal(0.1), (8, self.heads))
        bias = table[relative_bucket(pos[None] - pos[:, None])].transpose(2, 0, 1)[None]
        x = Block(self.dim, self.heads)(x, mask, bias)
        w = mask[..., None].astype(x.dtype)
        pooled = (x * w).sum(1) / jnp.maximum(w.sum(1), 1)
        return nn.Dense(1)(nn.RMSNorm()(pooled))[:, 0]


model = Reranker()
tx = optax.adamw(optax.warmup_cosine_decay_schedule(0.0, 1e-3, 10, 200), weight_decay=0.01)


@jax.jit
def train_step(params, opt_state, ids, relevance):
    def loss_fn(p):
        q, c, l = ids.shape
        scores = model.apply({"params": p}, ids.reshape(q * c, l)).reshape(q, c)
        return optax.softmax_cross_entropy(scores, relevance).mean()

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def pad(queries):
    longest = max(len(doc) for cands in queries for doc in cands)
    width = next(b for b in BUCKETS if b >= longest)
    ids = np.zeros((len(queries), len(queries[0]), width), np.int32)
    for i, cands in enumerate(queries):
        for j, doc in enumerate(cands):
            ids[i, j, :len(doc)] = doc
    return ids


def stream(rng, n, n_query=2, n_cand=4):
    for _ in range(n):
        top = rng.integers(10, 46)
        queries = [[rng.integers(1, VOCAB, rng.integers(5, top + 1)) for _ in range(n_cand)]
                   for _ in range(n_query)]
        rel = np.eye(n_cand, dtype=np.float32)[rng.integers(0, n_cand, n_query)]
        yield pad(queries), rel


def main():
    rng = np.random.default_rng(4)
    params = model.init(jax.random.key(1), jnp.ones((1, BUCKETS[0]), jnp.int32))["params"]
    opt_state = tx.init(params)
    out = os.environ.get("HLO_DIR")
    for i, (ids, rel) in enumerate(stream(rng, 8)):
        if out:
            text = train_step.lower(params, opt_state, ids, rel).compiler_ir("hlo").as_hlo_text()
            with open(os.path.join(out, f"call{i}.hlo"), "w") as f:
                f.write(text)
        params, opt_state, loss = train_step(params, opt_state, ids, rel)
        print(i, ids.shape, float(loss), train_step._cache_size())


if __name__ == "__main__":
    main()
