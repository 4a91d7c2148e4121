"""Siamese self-supervised pretraining on feature vectors (JAX)."""
import sys
import jax
import jax.numpy as jnp


class MLP:
    def __init__(self, *dims):
        self.dims = dims

    def init(self, key):
        out = []
        for i, (a, b) in enumerate(zip(self.dims, self.dims[1:])):
            k = jax.random.fold_in(key, i)
            out.append({"w": jax.random.normal(k, (a, b)) * (2 / a) ** 0.5, "g": jnp.ones(b), "b": jnp.zeros(b)})
        return out

    def __call__(self, params, x):
        for i, p in enumerate(params):
            x = x @ p["w"]
            if i < len(params) - 1:
                mu = x.mean(0)
                var = ((x - mu) ** 2).mean(0)
                x = jax.nn.relu((x - mu) / jnp.sqrt(var + 1e-5) * p["g"] + p["b"])
            else:
                x = x + p["b"]
        return x


encoder = MLP(20, 32, 32)
projector = MLP(32, 32, 16)
predictor = MLP(16, 8, 16)


def neg_cosine(p, z):
    p = p / (jnp.linalg.norm(p, axis=1, keepdims=True) + 1e-8)
    z = z / (jnp.linalg.norm(z, axis=1, keepdims=True) + 1e-8)
    return -(p * z).sum(1).mean()


def embed(params, x):
    return projector(params["proj"], encoder(params["enc"], x))


def objective(params, v1, v2):
    z1, z2 = embed(params, v1), embed(params, v2)
    p1, p2 = predictor(params["pred"], z1), predictor(params["pred"], z2)
    z1, z2 = jax.lax.stop_gradient(z1), jax.lax.stop_gradient(z2)
    return 0.5 * neg_cosine(p1, z2) + 0.5 * neg_cosine(p2, z1)


def sgd_momentum(params, vel, grads, lr):
    vel = jax.tree.map(lambda v, g, p: 0.9 * v + g + 1e-4 * p, vel, grads, params)
    return jax.tree.map(lambda p, v: p - lr * v, params, vel), vel


def augment(key, x):
    k1, k2 = jax.random.split(key)
    return x * jax.random.bernoulli(k1, 0.8, x.shape) + 0.1 * jax.random.normal(k2, x.shape)


def step(params, vel, v1, v2, lr):
    loss, grads = jax.value_and_grad(objective)(params, v1, v2)
    params, vel = sgd_momentum(params, vel, grads, lr)
    return params, vel, loss


key = jax.random.key(3)
k1, k2, k3, k4 = jax.random.split(key, 4)
params = {"enc": encoder.init(k1), "proj": projector.init(k2), "pred": predictor.init(k3)}
vel = jax.tree.map(jnp.zeros_like, params)
x = jax.random.normal(k4, (16, 20))
jstep = jax.jit(step)
text = jstep.lower(params, vel, augment(k1, x), augment(k2, x), 0.05).compiler_ir("hlo").as_hlo_module().to_string()
open(sys.argv[1], "w").write(text)
