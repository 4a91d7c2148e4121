"""Streaming fault detector on pump vibration: GRU trained on consecutive windows, state carried over.

Compute in bfloat16, master weights in float32.

usage: step.py A.hlo B.hlo      (the modules traced for step 0 and for step 1 of one run)
"""
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

BATCH, WINDOW, N_SENSOR, HID = 4, 6, 5, 8
COMPUTE = jnp.bfloat16


def init_params(key):
    ks = jax.random.split(key, 6)
    lin = lambda k, i, o: {"w": jax.random.normal(k, (i, o)) / np.sqrt(i), "b": jnp.zeros(o)}
    return {
        "in": lin(ks[0], N_SENSOR, HID),
        "zr_x": lin(ks[1], HID, 2 * HID),
        "zr_h": {"w": jax.random.normal(ks[2], (HID, 2 * HID)) / np.sqrt(HID)},
        "n_x": lin(ks[3], HID, HID),
        "n_h": lin(ks[4], HID, HID),
        "out": lin(ks[5], HID, 2),
    }


def dense(p, x):
    return x @ p["w"] + p["b"]


def gru_cell(p, h, x):
    zr = dense(p["zr_x"], x) + h.astype(x.dtype) @ p["zr_h"]["w"]
    z, r = jnp.split(jax.nn.sigmoid(zr), 2, axis=-1)
    n = jnp.tanh(dense(p["n_x"], x) + r * dense(p["n_h"], h.astype(x.dtype)))
    return (1 - z) * n + z * h


def unroll(p, h, xs):
    def body(h, x):
        new = gru_cell(p, h, x).astype(h.dtype)
        return new, new

    return jax.lax.scan(body, h, xs)


def loss_fn(params, state, x, fault, seen):
    p = jax.tree.map(lambda a: a.astype(COMPUTE), params)
    h0 = jax.lax.stop_gradient(state) * seen[:, None].astype(state.dtype)
    xs = jax.nn.relu(dense(p["in"], x.astype(COMPUTE))).swapaxes(0, 1)
    last, hs = unroll(p, h0, xs)
    out = dense(p["out"], hs.astype(COMPUTE)).astype(jnp.float32)
    logit, forecast = out[..., 0].T, out[..., 1].T
    bce = optax.sigmoid_binary_cross_entropy(logit, fault).mean()
    ahead = jnp.square(forecast[:, :-1] - x[:, 1:, 0]).mean()
    return bce + 0.3 * ahead, (last.astype(COMPUTE), bce)


schedule = optax.cosine_decay_schedule(3e-3, 500)
tx = optax.chain(optax.add_decayed_weights(1e-3), optax.lion(schedule, b1=0.9, b2=0.98))


@jax.jit
def train_step(params, opt_state, state, x, fault, seen):
    grads_fn = jax.value_and_grad(loss_fn, has_aux=True)
    (loss, (state, bce)), grads = grads_fn(params, state, x, fault, seen)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, state, loss, bce


def main(paths, steps=4):
    params = init_params(jax.random.PRNGKey(2))
    opt_state = tx.init(params)
    state = jnp.zeros((BATCH, HID))
    rng = np.random.default_rng(0)
    for i in range(steps):
        x = rng.normal(size=(BATCH, WINDOW, N_SENSOR)).astype(np.float32)
        fault = (rng.uniform(size=(BATCH, WINDOW)) < 0.1).astype(np.float32)
        seen = np.full((BATCH,), i > 0)
        args = (params, opt_state, state, x, fault, seen)
        if i < 2:
            with open(paths[i], "w") as f:
                f.write(train_step.lower(*args).compiler_ir("hlo").as_hlo_module().to_string())
        params, opt_state, state, loss, bce = train_step(*args)
        print(i, float(loss), float(bce), state.dtype, train_step._cache_size())


if __name__ == "__main__":
    main(sys.argv[1:3])
