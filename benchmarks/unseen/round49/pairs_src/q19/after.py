"""Jet tagging with a small particle transformer (masked set of constituents), AdamW."""
import sys
import jax
import jax.numpy as jnp
import optax

D, HEADS, FEAT, CLASSES, N = 16, 4, 5, 3, 12


def init(key):
    k = iter(jax.random.split(key, 12))

    def dense(n_in, n_out):
        return {"w": jax.random.normal(next(k), (n_in, n_out)) / jnp.sqrt(n_in), "b": jnp.zeros(n_out)}

    return {
        "embed": dense(FEAT, D),
        "qkv": dense(D, 3 * D),
        "proj": dense(D, D),
        "ln1": {"g": jnp.ones(D), "b": jnp.zeros(D)},
        "ln2": {"g": jnp.ones(D), "b": jnp.zeros(D)},
        "mlp1": dense(D, 2 * D),
        "mlp2": dense(2 * D, D),
        "head": dense(D, CLASSES),
    }


def linear(p, x):
    return x @ p["w"] + p["b"]


def layer_norm(p, x):
    mean = x.mean(-1, keepdims=True)
    var = jnp.var(x, axis=-1, keepdims=True)
    return p["g"] * (x - mean) * jax.lax.rsqrt(var + 1e-5) + p["b"]


def attention(params, x, mask):
    b, n, _ = x.shape
    qkv = linear(params["qkv"], x).reshape(b, n, 3, HEADS, D // HEADS)
    q, k, v = qkv.transpose(2, 0, 3, 1, 4)  # each: batch, head, particle, feature
    scores = (q * (D // HEADS) ** -0.5) @ k.swapaxes(-1, -2)
    scores = jnp.where(mask[:, None, None, :] > 0, scores, -1e9)
    out = jax.nn.softmax(scores, axis=-1) @ v
    return linear(params["proj"], out.swapaxes(1, 2).reshape(b, n, D))


def forward(params, x, mask):
    h = linear(params["embed"], x)
    h = h + attention(params, layer_norm(params["ln1"], h), mask)
    z = jax.nn.gelu(linear(params["mlp1"], layer_norm(params["ln2"], h)), approximate=True)
    h = h + linear(params["mlp2"], z)
    pooled = jnp.einsum("bnd,bn->bd", h, mask) / mask.sum(1, keepdims=True)
    return linear(params["head"], pooled)


def loss_fn(params, x, mask, label):
    logits = forward(params, x, mask)
    nll = optax.softmax_cross_entropy_with_integer_labels(logits, label).mean()
    acc = (logits.argmax(-1) == label).mean()
    return nll, acc


tx = optax.chain(
    optax.scale_by_adam(b1=0.9, b2=0.98),
    optax.add_decayed_weights(0.01),
    optax.scale_by_learning_rate(1e-3),
)


def step(params, opt_state, x, mask, label):
    (loss, acc), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, x, mask, label)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss, acc


def batch_for(seed):
    k = jax.random.split(jax.random.PRNGKey(seed), 3)
    count = jax.random.randint(k[1], (8,), 3, N + 1)
    mask = (jnp.arange(N)[None, :] < count[:, None]).astype(jnp.float32)
    return jax.random.normal(k[0], (8, N, FEAT)), mask, jax.random.randint(k[2], (8,), 0, CLASSES)


if __name__ == "__main__":
    params = init(jax.random.PRNGKey(0))
    opt_state = tx.init(params)
    with open(sys.argv[1], "w") as f:
        f.write(jax.jit(step).lower(params, opt_state, *batch_for(0)).compiler_ir("hlo").as_hlo_module().to_string())
    run = jax.jit(step)
    for i in range(5):
        params, opt_state, loss, acc = run(params, opt_state, *batch_for(i))
        norm = sum(float(jnp.abs(p).sum()) for p in jax.tree_util.tree_leaves(params))
        print(i, float(loss), float(acc), norm)
