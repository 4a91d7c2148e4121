"""Mesh simulator step (cloth), bf16 message passing with f32 node state (JAX)."""
import os

import jax
import jax.numpy as jnp
import optax

NODES, EDGES, FEAT, HID, ROUNDS = 14, 40, 5, 8, 2
OUT = {"before.py": "a.hlo", "after.py": "b.hlo"}[os.path.basename(__file__)]


def dense_init(key, n_in, n_out):
    return {"w": jax.random.normal(key, (n_in, n_out)) / jnp.sqrt(n_in), "b": jnp.zeros(n_out)}


def dense(p, x):
    return x @ p["w"].astype(x.dtype) + p["b"].astype(x.dtype)


def layer_norm(p, x):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(var + 1e-5) * p["g"]


def init(key):
    ks = iter(jax.random.split(key, 16))
    params = {"enc": dense_init(next(ks), FEAT, HID), "rounds": [], "dec": dense_init(next(ks), HID, 3)}
    for _ in range(ROUNDS):
        params["rounds"].append({
            "edge": dense_init(next(ks), 2 * HID + 4, HID),
            "edge_out": dense_init(next(ks), HID, HID),
            "node": dense_init(next(ks), 2 * HID, HID),
            "norm": {"g": jnp.ones(HID)},
        })
    return params


def edge_geometry(pos, rest, senders, receivers):
    d = pos[senders] - pos[receivers]
    length = jnp.sqrt((d ** 2).sum(-1, keepdims=True) + 1e-8)
    return jnp.concatenate([d / length, length / rest[:, None] - 1.0], axis=-1)


def message_round(p, h, geo, senders, receivers, edge_mask):
    x = jnp.concatenate([h[senders], h[receivers], geo], axis=-1).astype(jnp.bfloat16)
    msg = dense(p["edge_out"], jax.nn.gelu(dense(p["edge"], x)))
    msg = msg * edge_mask[:, None].astype(msg.dtype)
    agg = jax.ops.segment_sum(msg, receivers, num_segments=NODES).astype(jnp.float32)
    upd = dense(p["node"], jnp.concatenate([h, agg], axis=-1))
    return h + layer_norm(p["norm"], jax.nn.gelu(upd))


def simulate(params, node_feat, pos, rest, senders, receivers, edge_mask):
    h = jnp.tanh(dense(params["enc"], node_feat))
    geo = edge_geometry(pos, rest, senders, receivers)
    for p in params["rounds"]:
        h = message_round(p, h, geo, senders, receivers, edge_mask)
    return dense(params["dec"], h)


def loss_fn(params, batch):
    acc = simulate(params, batch["feat"], batch["pos"], batch["rest"],
                   batch["senders"], batch["receivers"], batch["edge_mask"])
    err = optax.huber_loss(acc, batch["target"], delta=0.5).sum(-1)
    free = 1.0 - batch["pinned"]
    return (err * free).sum() / free.sum()


tx = optax.sgd(1e-2, momentum=0.9)


def train_step(params, opt_state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def make_batch(key):
    k = jax.random.split(key, 8)
    return {
        "feat": jax.random.normal(k[0], (NODES, FEAT)),
        "pos": jax.random.normal(k[1], (NODES, 3)),
        "rest": 0.5 + jax.random.uniform(k[2], (EDGES,)),
        "senders": jax.random.randint(k[3], (EDGES,), 0, NODES),
        "receivers": jax.random.randint(k[4], (EDGES,), 0, NODES),
        "edge_mask": (jax.random.uniform(k[5], (EDGES,)) > 0.1).astype(jnp.float32),
        "target": jax.random.normal(k[6], (NODES, 3)),
        "pinned": (jax.random.uniform(k[7], (NODES,)) > 0.8).astype(jnp.float32),
    }


def main():
    params = init(jax.random.key(0))
    opt_state = tx.init(params)
    batch = make_batch(jax.random.key(1))
    step = jax.jit(train_step, donate_argnums=(0, 1))
    text = step.lower(params, opt_state, batch).compiler_ir("hlo").as_hlo_module().to_string()
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), OUT), "w") as f:
        f.write(text)
    for i in range(4):
        params, opt_state, loss = step(params, opt_state, batch)
        print(i, f"{loss:.7f}")


if __name__ == "__main__":
    main()
