"""Message passing on a fixed power grid: locate the faulted bus, estimate its severity.

usage: before.py OUT      writes the HLO of one training step
"""
import sys
import jax
import jax.numpy as jnp

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


def network(params, nodes, lines, senders, receivers):
    """One graph: nodes [BUSES, FEATS], lines [EDGES, 2]."""
    h = jax.nn.relu(dense(params["encode"], nodes))
    degree = jax.ops.segment_sum(jnp.ones(senders.shape[0]), receivers, BUSES)
    for p in params["message"]:
        pair = jnp.concatenate([h[senders], h[receivers], lines], axis=-1)
        msg = jnp.tanh(dense(p, pair))
        agg = jax.ops.segment_sum(msg, receivers, BUSES) / jnp.maximum(degree, 1.0)[:, None]
        gate = jax.nn.sigmoid(dense(params["update"], jnp.concatenate([h, agg], axis=-1)))
        h = gate * h + (1.0 - gate) * agg
    scores = h @ params["bus"]
    attention = jax.nn.softmax(scores)
    severity = jnp.sum(attention * dense(params["severity"], h)[:, 0])
    return scores, severity


def example_loss(params, nodes, lines, bus, severity, senders, receivers):
    scores, guess = network(params, nodes, lines, senders, receivers)
    nll = -jnp.sum(jax.nn.one_hot(bus, BUSES) * jax.nn.log_softmax(scores))
    return nll, (guess - severity) ** 2


def loss_fn(params, batch):
    one = lambda n, e, b, s: example_loss(params, n, e, b, s, batch["senders"], batch["receivers"])
    nll, sq = jax.vmap(one)(batch["nodes"], batch["lines"], batch["bus"], batch["severity"])
    return jnp.mean(nll) + 0.5 * jnp.mean(sq)


def adamw_init(params):
    zeros = jax.tree.map(jnp.zeros_like, params)
    return {"count": jnp.int32(0), "mu": zeros, "nu": jax.tree.map(jnp.zeros_like, params)}


def adamw(params, grads, state):
    count = state["count"] + 1
    mu = jax.tree.map(lambda m, g: B1 * m + (1 - B1) * g, state["mu"], grads)
    nu = jax.tree.map(lambda v, g: B2 * v + (1 - B2) * g * g, state["nu"], grads)
    c1, c2 = 1 - B1**count, 1 - B2**count

    def new(p, m, v):
        return p - LR * ((m / c1) / (jnp.sqrt(v / c2) + EPS) + DECAY * p)

    return jax.tree.map(new, params, mu, nu), {"count": count, "mu": mu, "nu": nu}


def train_step(params, opt_state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    params, opt_state = adamw(params, grads, opt_state)
    return params, opt_state, loss


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
    opt_state = adamw_init(params)
    batch = make_batch(key)
    step = jax.jit(train_step)
    with open(out, "w") as f:
        f.write(step.lower(params, opt_state, batch).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(6):
        params, opt_state, loss = step(params, opt_state, make_batch(jax.random.fold_in(key, i)))
        print(i, float(loss), float(sum(jnp.abs(p).sum() for p in jax.tree.leaves(params))))


if __name__ == "__main__":
    main(sys.argv[1])
