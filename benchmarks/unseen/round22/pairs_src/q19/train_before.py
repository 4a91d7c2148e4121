import os

import jax
import jax.numpy as jnp
import numpy as np

VOCAB, D, H, T, B = 23, 12, 3, 9, 4
LR, MOM, WD = 0.1, 0.9, 1e-3


def init_params(seed):
    rng = np.random.default_rng(seed)

    def w(*shape):
        return jnp.asarray(rng.normal(size=shape).astype(np.float32) / np.sqrt(shape[0]))

    return {
        "embed": w(VOCAB, D),
        "wq": w(D, D),
        "wk": w(D, D),
        "wv": w(D, D),
        "wo": w(D, D),
        "ffn_in": w(D, 3 * D),
        "ffn_gate": w(D, 3 * D),
        "ffn_out": w(3 * D, D),
        "norm1": jnp.ones(D),
        "norm2": jnp.ones(D),
        "unembed": w(D, VOCAB),
    }


def layer_norm(x, g):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return (x - mu) / jnp.sqrt(var + 1e-5) * g


def split_heads(x):
    return x.reshape(B, T, H, D // H).transpose(0, 2, 1, 3)


def attention(p, x, pad):
    q = split_heads(x @ p["wq"])
    k = split_heads(x @ p["wk"])
    v = split_heads(x @ p["wv"])
    s = (q @ k.transpose(0, 1, 3, 2)) / np.sqrt(D // H)
    causal = jnp.tril(jnp.ones((T, T), bool))
    keep = causal[None, None] & pad[:, None, None, :]
    s = jnp.where(keep, s, -1e9)
    a = jax.nn.softmax(s, axis=-1)
    o = (a @ v).transpose(0, 2, 1, 3).reshape(B, T, D)
    return o @ p["wo"]


def ffn(p, x):
    return (jax.nn.silu(x @ p["ffn_gate"]) * (x @ p["ffn_in"])) @ p["ffn_out"]


def loss_fn(p, tokens, pad):
    x = p["embed"][tokens]
    x = x + attention(p, layer_norm(x, p["norm1"]), pad)
    x = x + ffn(p, layer_norm(x, p["norm2"]))
    logits = x @ p["unembed"]
    logp = jax.nn.log_softmax(logits[:, :-1])
    nll = -jnp.take_along_axis(logp, tokens[:, 1:, None], axis=-1)[..., 0]
    weight = pad[:, 1:].astype(jnp.float32)
    return (nll * weight).sum() / weight.sum()


@jax.jit
def update(p, m, tokens, pad):
    loss, g = jax.value_and_grad(loss_fn)(p, tokens, pad)
    new_p, new_m = {}, {}
    for k in p:
        gk = g[k] + WD * p[k]
        new_m[k] = MOM * m[k] + gk
        new_p[k] = p[k] - LR * new_m[k]
    return new_p, new_m, loss


def data(seed):
    rng = np.random.default_rng(seed)
    while True:
        tok = rng.integers(0, VOCAB, size=(B, T)).astype(np.int32)
        n = rng.integers(4, T + 1, size=(B, 1))
        yield tok, np.arange(T)[None] < n


def main():
    p = init_params(0)
    m = {k: jnp.zeros_like(v) for k, v in p.items()}
    stream = data(1)
    tok, pad = next(stream)
    path = os.environ.get("DUMP_HLO")
    if path:
        ir = update.lower(p, m, tok, pad).compiler_ir(dialect="hlo")
        open(path, "w").write(ir.as_hlo_text())
    for i in range(5):
        p, m, loss = update(p, m, tok, pad)
        print(i, float(loss))
        tok, pad = next(stream)


if __name__ == "__main__":
    main()
