"""Data-parallel training of a small MLP-mixer with shard_map."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, PartitionSpec as P

AXIS = "data"
CFG = {"tokens": 6, "dim": 12, "token_mlp": 10, "chan_mlp": 24, "layers": 2, "classes": 4, "lr": 0.05, "batch": 16}


def init_params(cfg, seed=0):
    rng = np.random.default_rng(seed)

    def dense(i, o):
        return {"w": jnp.asarray(rng.normal(size=(i, o)) / np.sqrt(i), jnp.float32), "b": jnp.zeros(o)}

    blocks = []
    for _ in range(cfg["layers"]):
        blocks.append(
            {
                "ln1": jnp.ones(cfg["dim"]),
                "tok1": dense(cfg["tokens"], cfg["token_mlp"]),
                "tok2": dense(cfg["token_mlp"], cfg["tokens"]),
                "ln2": jnp.ones(cfg["dim"]),
                "ch1": dense(cfg["dim"], cfg["chan_mlp"]),
                "ch2": dense(cfg["chan_mlp"], cfg["dim"]),
            }
        )
    return {"blocks": blocks, "head": dense(cfg["dim"], cfg["classes"])}


def apply_dense(p, x):
    return x @ p["w"] + p["b"]


def layer_norm(x, scale):
    mu = x.mean(-1, keepdims=True)
    var = jnp.mean(jnp.square(x - mu), -1, keepdims=True)
    return (x - mu) * jax.lax.rsqrt(var + 1e-5) * scale


def forward(params, x):
    for b in params["blocks"]:
        y = jnp.swapaxes(layer_norm(x, b["ln1"]), 1, 2)
        y = apply_dense(b["tok2"], jax.nn.gelu(apply_dense(b["tok1"], y)))
        x = x + jnp.swapaxes(y, 1, 2)
        x = x + apply_dense(b["ch2"], jax.nn.gelu(apply_dense(b["ch1"], layer_norm(x, b["ln2"]))))
    return apply_dense(params["head"], x.mean(1))


def loss_fn(params, x, y):
    logits = forward(params, x)
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()
    acc = jnp.mean((logits.argmax(-1) == y).astype(jnp.float32))
    return loss, acc


def build_step(mesh, tx):
    @partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(P(), P(), P(AXIS), P(AXIS)),
        out_specs=(P(), P(), P()),
        check_vma=False,
    )
    def step(params, opt_state, x, y):
        (loss, acc), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, x, y)
        grads = jax.lax.pmean(grads, AXIS)
        updates, opt_state = tx.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        metrics = jax.lax.pmean({"loss": loss, "acc": acc}, AXIS)
        return params, opt_state, metrics

    return jax.jit(step)


def main():
    mesh = Mesh(np.array(jax.devices()), (AXIS,))
    tx = optax.sgd(CFG["lr"], momentum=0.9)
    params = init_params(CFG)
    opt_state = tx.init(params)
    step = build_step(mesh, tx)
    rng = np.random.default_rng(1)
    for i in range(3):
        y = rng.integers(0, CFG["classes"], CFG["batch"])
        x = rng.normal(size=(CFG["batch"], CFG["tokens"], CFG["dim"])) + y[:, None, None] * 0.3
        params, opt_state, m = step(params, opt_state, jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.int32))
        print(i, {k: round(float(v), 4) for k, v in m.items()})


if __name__ == "__main__":
    main()
