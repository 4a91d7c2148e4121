"""Message passing on a fixed power grid: locate the faulted bus, estimate its severity.

usage: before.py OUT      writes the HLO of one training step
"""
import sys
import jax
import jax.numpy as jnp
import optax

BUSES, FEATS, DIM, BATCH = 9, 5, 12, 4
LR, B1, B2, EPS, DECAY = 2e-3, 0.9, 0.999, 1e-8, 1e-2


def dense_init(key, din, dout):
    return {"w": jax.random.normal(key, (din, dout)) / jnp.sqrt(din), "b": jnp.zeros(dout)}


def init(key):
    ks = jax.random.split(key, 6)
    return {
        "encode": dense_init(ks[0], FEATS, DIM),
        "message": [dense_init(ks[1], 2 * DIM + 2, DIM), dense_init(ks[2], 2 * DIM + 2, DIM)],
        "update": dense_init(ks[3], 2 * DIM, DIM),
        "bus": jax.random.normal(ks[4], (DIM,)) / jnp.sqrt(DIM),
        "severity": dense_init(ks[5], DIM, 1),
    }


def dense(p, x):
    return x @ p["w"] + p["b"]


def gather_pairs(h, lines, senders, receivers):
    return jnp.concatenate([h[:, senders], h[:, receivers], lines], axis=-1)


def scatter_mean(msg, receivers, inv_degree):
    total = jnp.zeros((msg.shape[0], BUSES, msg.shape[-1])).at[:, receivers].add(msg)
    return total * inv_degree[:, None]


def network(params, nodes, lines, senders, receivers):
    """A batch of graphs: nodes [B, BUSES, FEATS], lines [B, EDGES, 2]."""
    h = jax.nn.relu(dense(params["encode"], nodes))
    inv_degree = 1.0 / jnp.maximum(jnp.bincount(receivers, length=BUSES), 1)
    for p in params["message"]:
        msg = jnp.tanh(dense(p, gather_pairs(h, lines, senders, receivers)))
        agg = scatter_mean(msg, receivers, inv_degree)
        gate = jax.nn.sigmoid(dense(params["update"], jnp.concatenate([h, agg], axis=-1)))
        h = agg + gate * (h - agg)
    scores = h @ params["bus"]
    pooled = jnp.einsum("bn,bnd->bd", jax.nn.softmax(scores), h)
    return scores, dense(params["severity"], pooled).squeeze(-1)


def loss_fn(params, batch):
    scores, severity = network(
        params, batch["nodes"], batch["lines"], batch["senders"], batch["receivers"]
    )
    nll = optax.softmax_cross_entropy_with_integer_labels(scores, batch["bus"])
    sq = optax.squared_error(severity, batch["severity"])
    return jnp.mean(nll + 0.5 * sq)


tx = optax.adamw(LR, b1=B1, b2=B2, eps=EPS, weight_decay=DECAY)


def train_step(params, opt_state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def make_batch(key):
    a, b, c, d = jax.random.split(key, 4)
    ring = jnp.arange(BUSES)
    senders = jnp.concatenate([ring, (ring + 1) % BUSES, jnp.array([0, 4])])
    receivers = jnp.concatenate([(ring + 1) % BUSES, ring, jnp.array([4, 0])])
    return {
        "nodes": jax.random.normal(a, (BATCH, BUSES, FEATS)),
        "lines": jax.random.normal(b, (BATCH, senders.shape[0], 2)),
        "bus": jax.random.randint(c, (BATCH,), 0, BUSES),
        "severity": jax.random.uniform(d, (BATCH,)),
        "senders": senders,
        "receivers": receivers,
    }


def main(out):
    key = jax.random.PRNGKey(4)
    params = init(key)
    opt_state = tx.init(params)
    batch = make_batch(key)
    step = jax.jit(train_step)
    with open(out, "w") as f:
        f.write(step.lower(params, opt_state, batch).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(6):
        params, opt_state, loss = step(params, opt_state, make_batch(jax.random.fold_in(key, i)))
        print(i, float(loss), float(sum(jnp.abs(p).sum() for p in jax.tree.leaves(params))))


if __name__ == "__main__":
    main(sys.argv[1])
