"""Deep ensemble for solubility regression: each member predicts a mean and a variance."""
import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

MEMBERS, FEATURES, SIZES = 4, 9, (16, 12)
tx = optax.chain(optax.clip(0.5), optax.adam(2e-3))


def init_member(key):
    layers = []
    fan_in = FEATURES
    for width in SIZES + (2,):
        key, sub = jax.random.split(key)
        layers.append({"w": jax.random.normal(sub, (fan_in, width)) / jnp.sqrt(fan_in),
                       "b": jnp.zeros(width)})
        fan_in = width
    return {"layers": layers, "gain": jnp.ones(SIZES[-1])}


def init(key):
    members = jax.vmap(init_member)(jax.random.split(key, MEMBERS))
    return {"kernels": [l["w"] for l in members["layers"]],
            "biases": [l["b"] for l in members["layers"]],
            "gain": members["gain"]}


def forward(params, x):
    """All members at once; the hidden activations are (member, row, unit)."""
    w1, w2, w3 = params["kernels"]
    b1, b2, b3 = params["biases"]
    h = jnp.einsum("bi,mio->mbo", x, w1) + b1[:, None]
    h = h * jax.nn.sigmoid(h)
    h = jnp.einsum("mbi,mio->mbo", h, w2) + b2[:, None]
    h = h * jax.nn.sigmoid(h)
    h = h * jax.lax.rsqrt(jnp.mean(jnp.square(h), axis=-1, keepdims=True) + 1e-6) * params["gain"][:, None]
    out = jnp.einsum("mbi,mio->mbo", h, w3) + b3[:, None]
    return out[..., 0], jnp.logaddexp(out[..., 1], 0.0) + 1e-3


def objective(params, x, y, weights):
    mu, var = forward(params, x)
    share = weights / weights.sum(axis=1, keepdims=True)
    nll = 0.5 * (jnp.square(mu - y) / var + jnp.log(var))
    per_member = (share * nll).sum(axis=1)
    decay = sum(jnp.vdot(w, w) for w in params["kernels"])
    return per_member.sum() + 1e-4 * decay, per_member


@partial(jax.jit, donate_argnums=(0, 1))
def step(params, opt_state, x, y, weights):
    (_, per_member), grads = jax.value_and_grad(objective, has_aux=True)(params, x, y, weights)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, per_member


def batches(seed=0, n=16):
    rng = np.random.default_rng(seed)
    while True:
        x = rng.normal(size=(n, FEATURES)).astype(np.float32)
        y = (np.tanh(x[:, 0]) - 0.5 * x[:, 1] * x[:, 2] + 0.1 * rng.normal(size=n)).astype(np.float32)
        boot = (rng.poisson(1.0, size=(MEMBERS, n)) + 0.05).astype(np.float32)
        yield x, y, boot


def main(steps=6):
    params = init(jax.random.PRNGKey(42))
    opt_state = tx.init(params)
    data = batches()
    if path := os.environ.get("DUMP_HLO"):
        with open(path, "w") as f:
            f.write(step.lower(params, opt_state, *next(data)).as_text(dialect="hlo"))
    for i in range(steps):
        params, opt_state, nll = step(params, opt_state, *next(data))
        print(i, np.round(np.asarray(nll), 5).tolist())


if __name__ == "__main__":
    main()
