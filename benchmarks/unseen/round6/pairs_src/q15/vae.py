# kind: jax  mode: dump  pattern: train_step
import jax
import jax.numpy as jnp

jax.config.update("jax_default_prng_impl", "rbg") #B


def mlp(p, x):
    for i, (w, b) in enumerate(p):
        x = x @ w + b
        if i + 1 < len(p):
            x = jax.nn.gelu(x)
    return x


def elbo(p, key, x):
    k1, k2 = jax.random.split(key)
    keep = jax.random.bernoulli(k1, 0.9, x.shape)
    mu, logvar = jnp.split(mlp(p["enc"], jnp.where(keep, x / 0.9, 0)), 2, -1)
    z = mu + jnp.exp(0.5 * logvar) * jax.random.normal(k2, mu.shape)
    rec = jnp.sum((mlp(p["dec"], z) - x) ** 2, -1)
    kl = -0.5 * jnp.sum(1 + logvar - mu ** 2 - jnp.exp(logvar), -1)
    return jnp.mean(rec + kl)


@jax.jit
def train_step(p, key, x):
    key, sub = jax.random.split(key)
    loss, g = jax.value_and_grad(elbo)(p, sub, x)
    norm = jnp.sqrt(sum(jnp.vdot(t, t) for t in jax.tree.leaves(g)))
    g = jax.tree.map(lambda t: t * jnp.minimum(1.0, 1.0 / norm), g)
    return jax.tree.map(lambda a, b: a - 1e-3 * b, p, g), key, loss


def init(*sizes):
    return [(jnp.full((a, b), 0.01), jnp.zeros(b)) for a, b in zip(sizes, sizes[1:])]


p = {"enc": init(24, 32, 12), "dec": init(6, 32, 24)}
p, key, loss = train_step(p, jax.random.PRNGKey(0), jnp.ones((8, 24)))
loss.block_until_ready()
