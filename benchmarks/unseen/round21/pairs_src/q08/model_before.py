import jax
import jax.numpy as jnp
import numpy as np

HEADS = 2


def init(rng, dim, hidden):
    def mat(a, b):
        return jnp.asarray(rng.normal(size=(a, b)) / np.sqrt(a), jnp.float32)

    return {
        "q": mat(dim, dim), "k": mat(dim, dim), "v": mat(dim, dim),
        "o": mat(dim, dim), "up": mat(dim, hidden), "down": mat(hidden, dim),
        "scale1": jnp.ones(dim), "scale2": jnp.ones(dim),
    }


def forward(params, x):
    b, t, d = x.shape
    var = jnp.mean(x * x, axis=-1, keepdims=True)
    h = x * jax.lax.rsqrt(var + 1e-6) * params["scale1"]
    q = (h @ params["q"]).reshape(b, t, HEADS, d // HEADS)
    k = (h @ params["k"]).reshape(b, t, HEADS, d // HEADS)
    v = (h @ params["v"]).reshape(b, t, HEADS, d // HEADS)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(d // HEADS)
    mask = jnp.tril(jnp.ones((t, t), bool))
    probs = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", probs, v).reshape(b, t, d)
    x = x + mixed @ params["o"]
    var = jnp.mean(x * x, axis=-1, keepdims=True)
    h = x * jax.lax.rsqrt(var + 1e-6) * params["scale2"]
    return x + jax.nn.gelu(h @ params["up"]) @ params["down"]


@jax.jit
def train_step(params, x, y):
    def loss_fn(p):
        return jnp.mean((forward(p, x) - y) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    return jax.tree.map(lambda p, g: p - 0.05 * g, params, grads), loss


def main():
    rng = np.random.default_rng(2)
    params = init(rng, 8, 16)
    for _ in range(4):
        x = rng.normal(size=(4, 6, 8)).astype(np.float32)
        y = np.roll(x, 1, axis=1)
        params, loss = train_step(params, x, y)
        print("loss %.4f" % loss)


if __name__ == "__main__":
    main()
