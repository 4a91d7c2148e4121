"""Rainfall-runoff: EA-LSTM over daily forcings (scan), bf16 matmuls, NSE loss.

usage: python after.py OUT.hlo
"""
import sys

import jax
import jax.numpy as jnp

BASINS, DAYS, WARM, FORCINGS, STATIC, HID = 5, 14, 4, 4, 6, 8
LR, MOM, CLIP = 5e-3, 0.9, 1.0


def init_params(key):
    k = jax.random.split(key, 5)
    n = jax.nn.initializers.orthogonal()
    return {
        "static": {"w": 0.3 * jax.random.normal(k[0], (STATIC, HID)), "b": jnp.zeros((HID,))},
        "cell": {
            "wx": 0.3 * jax.random.normal(k[1], (FORCINGS, 3 * HID)),
            "wh": jnp.concatenate([n(q, (HID, HID)) for q in jax.random.split(k[2], 3)], axis=1),
            "b": jnp.concatenate([jnp.full((HID,), 3.0), jnp.zeros((2 * HID,))]),
        },
        "norm": {"scale": jnp.ones((HID,)), "shift": jnp.zeros((HID,))},
        "head": {"w1": 0.4 * jax.random.normal(k[3], (HID, HID)), "w2": 0.4 * jax.random.normal(k[4], (HID, 1)),
                 "b1": jnp.zeros((HID,)), "b2": jnp.zeros((1,))},
    }


def mm(a, b):
    """bf16 operands, f32 result."""
    return jax.lax.dot_general(
        a.astype(jnp.bfloat16), b.astype(jnp.bfloat16),
        (((a.ndim - 1,), (0,)), ((), ()))).astype(jnp.float32)


def layer_norm(p, x):
    mean = x.mean(-1, keepdims=True)
    var = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(var + 1e-5) * p["scale"] + p["shift"]


def run_cell(params, static, forcings):
    # entity-aware: the input gate depends on the catchment only
    gate_in = jax.nn.sigmoid(mm(static, params["static"]["w"]) + params["static"]["b"])
    cell = params["cell"]
    pre = mm(forcings, cell["wx"]) + cell["b"]

    def tick(carry, pre_t):
        h, c = carry
        f, g, o = jnp.split(pre_t + mm(h, cell["wh"]), 3, axis=-1)
        c = jax.nn.sigmoid(f) * c + gate_in * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(layer_norm(params["norm"], c))
        return (h, c), h

    zero = jnp.zeros((BASINS, HID))
    _, hs = jax.lax.scan(tick, (zero, zero), pre)
    return hs


def predict(params, batch):
    hs = run_cell(params, batch["static"], batch["forcings"])
    head = params["head"]
    z = jax.nn.relu(mm(hs, head["w1"]) + head["b1"])
    return jax.nn.softplus(mm(z, head["w2"]) + head["b2"])[..., 0]


def loss_fn(params, batch):
    q = predict(params, batch)[WARM:]
    obs = batch["flow"][WARM:]
    ok = jnp.isfinite(obs)
    err = jnp.where(ok, q - jnp.where(ok, obs, 0.0), 0.0)
    # basin-averaged NSE*, Kratzert et al. 2019
    per_basin = jnp.sum(err ** 2, axis=0) / jnp.maximum(jnp.sum(ok, axis=0), 1)
    return jnp.mean(per_basin / (batch["flow_std"] + 0.1) ** 2)


def step(params, mom, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    tmap = jax.tree_util.tree_map
    norm = jnp.sqrt(sum(jnp.sum(g ** 2) for g in jax.tree_util.tree_leaves(grads)))
    factor = jnp.minimum(1.0, CLIP / (norm + 1e-6))
    mom = tmap(lambda m, g: MOM * m + factor * g, mom, grads)
    params = tmap(lambda p, m: p - LR * m, params, mom)
    return params, mom, loss, norm


def make_batch(key):
    k = jax.random.split(key, 5)
    flow = jax.random.gamma(k[2], 2.0, (DAYS, BASINS))
    gap = jax.random.uniform(k[3], (DAYS, BASINS)) < 0.1
    return {
        "forcings": jax.random.normal(k[0], (DAYS, BASINS, FORCINGS)),
        "static": jax.random.normal(k[1], (BASINS, STATIC)),
        "flow": jnp.where(gap, jnp.nan, flow),
        "flow_std": jax.random.uniform(k[4], (BASINS,)) + 0.5,
    }


def main(path):
    params = init_params(jax.random.PRNGKey(0))
    mom = jax.tree_util.tree_map(jnp.zeros_like, params)
    run = jax.jit(step)
    with open(path, "w") as f:
        f.write(run.lower(params, mom, make_batch(jax.random.PRNGKey(1))).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(4):
        params, mom, loss, norm = run(params, mom, make_batch(jax.random.PRNGKey(30 + i)))
        print(i, float(loss), float(norm))


if __name__ == "__main__":
    main(sys.argv[1])
