# kind: jax  mode: text
import os
import jax
import jax.numpy as jnp

V, D, MAX, EOS = 40, 24, 20, 1


def logits_at(p, toks, n):
    x = p["emb"][toks] + p["pos"]
    live = jnp.arange(MAX) < n
    for l in p["layers"]:
        q, k, v = x @ l["q"], x @ l["k"], x @ l["v"]
        s = jnp.einsum("bqd,bkd->bqk", q, k) / D ** 0.5
        s = jnp.where(live[None, None] & (jnp.arange(MAX)[:, None] >= jnp.arange(MAX)), s, -1e9)
        x = x + jax.nn.softmax(s) @ v
        x = x + jax.nn.silu(x @ l["u"]) @ l["d"]
    last = jax.lax.dynamic_index_in_dim(x, n - 1, 1, keepdims=False)
    return last @ p["emb"].T


@jax.jit
def generate(p, prompt, n, key, temp):
    toks = jnp.pad(prompt, ((0, 0), (0, MAX - prompt.shape[1])))
    done = jnp.zeros(prompt.shape[0], bool)

    def cond(s):
        toks, n, done, key = s
        return (n < MAX) & ~done.all() #A
        return (n < MAX) & ~done.any() #B

    def body(s):
        toks, n, done, key = s
        key, sub = jax.random.split(key)
        lg = logits_at(p, toks, n) / temp
        kth = jax.lax.top_k(lg, 5)[0][:, -1:]
        lg = jnp.where(lg >= kth, lg, -jnp.inf)
        nxt = jnp.where(done, EOS, jax.random.categorical(sub, lg))
        toks = jax.lax.dynamic_update_slice(toks, nxt[:, None].astype(toks.dtype), (0, n))
        return toks, n + 1, done | (nxt == EOS), key

    toks, n, done, _ = jax.lax.while_loop(cond, body, (toks, n, done, key))
    return toks, n


l = {k: jnp.ones((D, D)) for k in "qkv"} | {"u": jnp.ones((D, 48)), "d": jnp.ones((48, D))}
p = {"emb": jnp.ones((V, D)), "pos": jnp.ones((MAX, D)), "layers": [l, l]}
low = generate.lower(p, jnp.zeros((3, 4), jnp.int32), jnp.int32(4), jax.random.PRNGKey(0), 0.8)
open(os.environ["OUT"], "w").write(low.compiler_ir("hlo").as_hlo_text())
