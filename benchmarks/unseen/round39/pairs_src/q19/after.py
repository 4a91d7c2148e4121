"""Jet tagging: particle clouds with pairwise interaction bias (small ParT), trained with optax."""
import sys
import jax
import jax.numpy as jnp
import optax

B, P, F, D, H, C = 6, 7, 4, 8, 2, 3


def dense_init(key, cin, cout):
    return {"w": jax.random.normal(key, (cin, cout)) / jnp.sqrt(cin), "b": jnp.zeros((cout,))}


def init(key):
    ks = iter(jax.random.split(key, 12))
    return {
        "embed": dense_init(next(ks), F, D),
        "pair": dense_init(next(ks), 2, H),
        "block": {n: dense_init(next(ks), D, D) for n in ("q", "k", "v", "o")},
        "up": dense_init(next(ks), D, 2 * D),
        "down": dense_init(next(ks), 2 * D, D),
        "pool": jax.random.normal(next(ks), (D,)) * 0.3,
        "head": dense_init(next(ks), D, C),
    }


def dense(p, x):
    return x @ p["w"] + p["b"]


def norm(x):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return (x - mu) * jax.lax.rsqrt(var + 1e-5)


def pair_features(a, b):
    """Interaction of two particles, each [F]: log dR^2 and log kt^2."""
    deta = a[1] - b[1]
    dphi = jnp.mod(a[2] - b[2] + jnp.pi, 2 * jnp.pi) - jnp.pi
    dr2 = deta ** 2 + dphi ** 2
    kt2 = jnp.minimum(a[0], b[0]) ** 2 * dr2
    return jnp.stack([jnp.log(dr2 + 1e-4), jnp.log(kt2 + 1e-4)])


all_pairs = jax.vmap(jax.vmap(pair_features, (None, 0)), (0, None))


def head(q, k, v, bias, mask):
    """One head of one jet: q, k, v [P, d]; bias [P, P]."""
    att = q @ k.T / jnp.sqrt(q.shape[-1]) + bias
    att = jax.nn.softmax(jnp.where(mask[None, :], att, -1e9), axis=-1)
    return att @ v


def forward(params, x, mask):
    """One jet. x: [P, F] with columns pt, eta, phi, charge; mask: [P]."""
    bias = dense(params["pair"], all_pairs(x, x))
    h = jax.nn.gelu(dense(params["embed"], x))
    y = norm(h)
    q, k, v = (dense(params["block"][n], y).reshape(P, H, D // H) for n in "qkv")
    msg = jax.vmap(head, (1, 1, 1, 2, None), 1)(q, k, v, bias, mask).reshape(P, D)
    h = h + dense(params["block"]["o"], msg)
    h = h + dense(params["down"], jax.nn.gelu(dense(params["up"], norm(h))))
    score = jnp.where(mask, norm(h) @ params["pool"], -1e9)
    pooled = jax.nn.softmax(score) @ h
    return dense(params["head"], pooled)


def jet_loss(params, x, mask, label):
    logits = forward(params, x, mask)
    return optax.softmax_cross_entropy_with_integer_labels(logits, label), logits


def loss_fn(params, x, mask, label, weight):
    ce, logits = jax.vmap(jet_loss, (None, 0, 0, 0))(params, x, mask, label)
    return jnp.dot(ce, weight) / weight.sum(), logits


opt = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.05, momentum=0.9))


def step(params, state, x, mask, label, weight):
    (loss, logits), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, x, mask, label, weight)
    updates, state = opt.update(grads, state, params)
    acc = jnp.mean(jnp.argmax(logits, -1) == label)
    return optax.apply_updates(params, updates), state, loss, acc


def main(out):
    params = init(jax.random.PRNGKey(3))
    state = opt.init(params)
    fn = jax.jit(step)
    key = jax.random.PRNGKey(5)
    for i in range(4):
        key, a, b, c, d = jax.random.split(key, 5)
        x = jax.random.normal(a, (B, P, F)).at[..., 0].set(jax.random.uniform(d, (B, P)))
        n = jax.random.randint(b, (B, 1), 3, P + 1)
        mask = jnp.arange(P)[None, :] < n
        label = jax.random.randint(c, (B,), 0, C)
        weight = jax.random.uniform(c, (B,)) + 0.5
        if i == 0:
            with open(out, "w") as f:
                low = fn.lower(params, state, x, mask, label, weight)
                f.write(low.compiler_ir("hlo").as_hlo_module().to_string())
        params, state, loss, acc = fn(params, state, x, mask, label, weight)
        total = sum(float(jnp.abs(p).sum()) for p in jax.tree.leaves((params, state)))
        print(i, float(loss), float(acc), total)


main(sys.argv[1])
