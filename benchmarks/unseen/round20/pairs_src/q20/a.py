"""Graph autoencoder for a small social graph: GCN encoder, inner-product decoder."""
import sys
import jax
import jax.numpy as jnp
import numpy as np

N, F, H, Z = 40, 12, 24, 8


@jax.jit
def gcn(a, x, w):
    return a @ (x @ w)


@jax.jit
def bce(logits, y):
    return jnp.mean(jnp.maximum(logits, 0) - logits * y + jnp.log1p(jnp.exp(-jnp.abs(logits))))


def loss_fn(p, a_hat, x, adj, eps):
    h = jax.nn.relu(gcn(a_hat, x, p["w0"]))
    mu = gcn(a_hat, h, p["w_mu"])
    ls = gcn(a_hat, h, p["w_ls"])
    z = mu + eps * jnp.exp(ls)
    rec = bce(z @ z.T, adj)
    kl = -0.5 / N * jnp.mean(jnp.sum(1 + 2 * ls - mu ** 2 - jnp.exp(2 * ls), 1))
    return rec + kl


def make_step(lr):
    def step(p, m, a_hat, x, adj, eps):
        loss, g = jax.value_and_grad(loss_fn)(p, a_hat, x, adj, eps)
        m = {k: 0.9 * m[k] + g[k] for k in m}
        p = {k: p[k] - lr * m[k] for k in p}
        return p, m, loss
    return jax.jit(step)


def main():
    rng = np.random.default_rng(2)
    adj = (rng.random((N, N)) < 0.1).astype(np.float32)
    adj = np.maximum(adj, adj.T)
    deg = adj.sum(1) + 1
    a_hat = (adj + np.eye(N, dtype=np.float32)) / np.sqrt(deg[:, None] * deg[None])
    a_hat = a_hat.astype(np.float32)
    x = rng.normal(size=(N, F)).astype(np.float32)
    p = {"w0": rng.normal(size=(F, H)), "w_mu": rng.normal(size=(H, Z)), "w_ls": rng.normal(size=(H, Z))}
    p = {k: jnp.asarray(v * 0.2, jnp.float32) for k, v in p.items()}
    m = {k: jnp.zeros_like(v) for k, v in p.items()}
    step = make_step(0.05)
    eps = jnp.asarray(rng.normal(size=(5, N, Z)), jnp.float32)
    if len(sys.argv) > 1:
        open(sys.argv[1], "w").write(step.lower(p, m, a_hat, x, adj, eps[0]).compiler_ir("hlo").as_hlo_text())
    for i in range(5):
        p, m, loss = step(p, m, a_hat, x, adj, eps[i])
    print(float(loss), [float(jnp.sum(p[k])) for k in sorted(p)])


main()
