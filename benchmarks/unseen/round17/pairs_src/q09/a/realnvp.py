"""RealNVP density model for 2-D galaxy positions, affine couplings with alternating masks."""
import jax
import jax.numpy as jnp
import numpy as np

DIM, WIDTH, N_COUPLING = 6, 32, 4
LEARNING_RATE = 5e-3


def init_coupling(key):
    k1, k2, k3 = jax.random.split(key, 3)
    half = DIM // 2
    return {
        "w1": jax.random.normal(k1, (half, WIDTH)) * 0.4,
        "b1": jnp.zeros(WIDTH),
        "w2": jax.random.normal(k2, (WIDTH, half)) * 0.05,
        "b2": jnp.zeros(half),
        "w3": jax.random.normal(k3, (WIDTH, half)) * 0.05,
        "b3": jnp.zeros(half),
    }


def init_flow(key):
    return [init_coupling(k) for k in jax.random.split(key, N_COUPLING)]


def coupling(p, x, flip):
    a, b = x[:, : DIM // 2], x[:, DIM // 2 :]
    if flip:
        a, b = b, a
    h = jnp.tanh(a @ p["w1"] + p["b1"])
    log_s = 2.0 * jnp.tanh(h @ p["w2"] + p["b2"])
    shift = h @ p["w3"] + p["b3"]
    b = b * jnp.exp(log_s) + shift
    out = jnp.concatenate([b, a] if flip else [a, b], axis=1)
    return out, jnp.sum(log_s, axis=1)


def log_likelihood(flow, x):
    total = jnp.zeros(x.shape[0])
    for i, p in enumerate(flow):
        x, log_det = coupling(p, x, flip=i % 2 == 1)
        total = total + log_det
    base = -0.5 * jnp.sum(x**2, axis=1) - 0.5 * DIM * np.log(2 * np.pi)
    return base + total


def negative_ll(flow, x, weight):
    ll = log_likelihood(flow, x)
    return -jnp.sum(weight * ll) / jnp.sum(weight)


@jax.jit
def fit_step(flow, momentum, x, weight):
    loss, grads = jax.value_and_grad(negative_ll)(flow, x, weight)
    momentum = jax.tree.map(lambda m, g: 0.95 * m + g, momentum, grads)
    flow = jax.tree.map(lambda p, m: p - LEARNING_RATE * m, flow, momentum)
    return flow, momentum, loss


def galaxies(rng, n=64):
    angle = rng.uniform(0, 4 * np.pi, n)
    arm = np.stack([angle * np.cos(angle), angle * np.sin(angle)], axis=1) / 8
    rest = rng.normal(size=(n, DIM - 2))
    return np.concatenate([arm, rest], axis=1).astype(np.float32)


def main():
    flow = init_flow(jax.random.PRNGKey(0))
    momentum = jax.tree.map(jnp.zeros_like, flow)
    rng = np.random.default_rng(7)
    for i in range(4):
        x = galaxies(rng)
        weight = rng.uniform(0.5, 1.5, len(x)).astype(np.float32)
        flow, momentum, loss = fit_step(flow, momentum, x, weight)
        print(f"iteration {i}: nll {float(loss):.4f}")


if __name__ == "__main__":
    main()
