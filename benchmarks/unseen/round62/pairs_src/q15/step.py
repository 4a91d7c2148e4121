"""Mesh message passing for unsteady flow: predict the next velocity increment."""
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

LATENT = 32
N_BLOCKS = 1
COMPUTE = jnp.bfloat16


class TrainState(NamedTuple):
    params: Any
    opt_state: Any
    delta: Any      # transition point of the robust loss
    step: Any


def init_mlp(key, sizes):
    keys = jax.random.split(key, len(sizes) - 1)
    layers = []
    for k, a, b in zip(keys, sizes[:-1], sizes[1:]):
        layers.append({"w": jax.random.normal(k, (a, b)) / np.sqrt(a), "b": jnp.zeros((b,))})
    return {"layers": layers, "scale": jnp.ones((sizes[-1],))}


def apply_mlp(p, x, norm=True):
    for i, layer in enumerate(p["layers"]):
        x = x @ layer["w"] + layer["b"]
        if i < len(p["layers"]) - 1:
            x = jax.nn.silu(x)
    return x * p["scale"] if norm else x


def init_params(key, node_dim, edge_dim, out_dim):
    ks = jax.random.split(key, 3 + 2 * N_BLOCKS)
    h = LATENT
    return {
        "enc_node": init_mlp(ks[0], [node_dim, h]),
        "enc_edge": init_mlp(ks[1], [edge_dim, h]),
        "dec": init_mlp(ks[2], [h, h, out_dim]),
        "blocks": [
            {"edge": init_mlp(ks[3 + 2 * i], [3 * h, h, h]), "node": init_mlp(ks[4 + 2 * i], [2 * h, h, h])}
            for i in range(N_BLOCKS)
        ],
    }


def network(params, batch):
    params = jax.tree_util.tree_map(lambda a: a.astype(COMPUTE), params)
    nodes = apply_mlp(params["enc_node"], batch["nodes"].astype(COMPUTE))
    edges = apply_mlp(params["enc_edge"], batch["edges"].astype(COMPUTE))
    snd, rcv = batch["senders"], batch["receivers"]
    for block in params["blocks"]:
        msg = jnp.concatenate([edges, nodes[snd], nodes[rcv]], -1)
        edges = edges + apply_mlp(block["edge"], msg)
        agg = jax.ops.segment_sum(edges, rcv, num_segments=nodes.shape[0])
        nodes = nodes + apply_mlp(block["node"], jnp.concatenate([nodes, agg], -1))
    return apply_mlp(params["dec"], nodes, norm=False)


def robust_loss(err, delta):
    a = jnp.abs(err)
    return jnp.where(a <= delta, 0.5 * a * a, delta * (a - 0.5 * delta))


def loss_fn(params, batch, delta):
    err = network(params, batch) - batch["target"].astype(COMPUTE)
    per_node = robust_loss(err, delta).sum(-1)
    mask = batch["fluid"]
    loss = jnp.sum(per_node.astype(jnp.float32) * mask) / mask.sum()
    return loss, err


def make_optimizer(total):
    sched = optax.warmup_cosine_decay_schedule(0.0, 1e-3, 10, total)
    return optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(sched, momentum=0.9))


@functools.partial(jax.jit, static_argnums=0)
def train_step(tx, state, batch):
    (loss, err), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params, batch, state.delta)
    updates, opt_state = tx.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    typical = jnp.mean(jnp.abs(err.astype(jnp.float32)))
    delta = 0.98 * state.delta + 0.02 * 1.35 * typical
    metrics = {"loss": loss, "grad_norm": optax.global_norm(grads), "delta": delta}
    return TrainState(params, opt_state, delta, state.step + 1), metrics


def mesh_batches(rng, n_nodes=60, n_edges=180):
    snd = rng.integers(0, n_nodes, n_edges).astype(np.int32)
    rcv = rng.integers(0, n_nodes, n_edges).astype(np.int32)
    pos = rng.random((n_nodes, 2)).astype(np.float32)
    rel = pos[snd] - pos[rcv]
    edges = np.concatenate([rel, np.linalg.norm(rel, axis=1, keepdims=True)], 1)
    fluid = (rng.random(n_nodes) < 0.9).astype(np.float32)
    while True:
        vel = rng.normal(size=(n_nodes, 2)).astype(np.float32)
        yield {
            "nodes": np.concatenate([vel, pos], 1),
            "edges": edges,
            "senders": snd,
            "receivers": rcv,
            "target": 0.1 * vel[:, ::-1].copy(),
            "fluid": fluid,
        }


def main(steps=6):
    rng = np.random.default_rng(4)
    params = init_params(jax.random.PRNGKey(0), node_dim=4, edge_dim=3, out_dim=2)
    tx = make_optimizer(total=500)
    state = TrainState(params, tx.init(params), delta=1.0, step=jnp.zeros((), jnp.int32))
    for i, batch in zip(range(steps), mesh_batches(rng)):
        state, metrics = train_step(tx, state, batch)
        print(i, {k: float(v) for k, v in metrics.items()})


if __name__ == "__main__":
    main()
