"""Message-passing network for molecular properties, masked multi-task regression."""
import os
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import train_state

N_ATOM, N_BOND, N_TASK = 9, 4, 3
MAX_GRAPHS, MAX_NODES, MAX_EDGES = 8, 96, 192


class Interaction(nn.Module):
    dim: int

    @nn.compact
    def __call__(self, h, e, senders, receivers, edge_mask):
        m = jnp.concatenate([h[senders], h[receivers], e], -1)
        m = nn.Dense(self.dim)(nn.silu(nn.Dense(self.dim)(m)))
        m = jnp.where(edge_mask[:, None], m, 0.0)
        agg = jax.ops.segment_sum(m, receivers, num_segments=h.shape[0])
        return h + nn.Dense(self.dim)(nn.LayerNorm()(agg))


class MPNN(nn.Module):
    dim: int = 16
    depth: int = 2

    @nn.compact
    def __call__(self, g):
        h = nn.Embed(N_ATOM, self.dim)(g["atom"])
        e = nn.Embed(N_BOND, self.dim // 2)(g["bond"])
        for _ in range(self.depth):
            h = Interaction(self.dim)(h, e, g["senders"], g["receivers"], g["edge_mask"])
        gate = nn.sigmoid(nn.Dense(1)(h))
        pooled = jax.ops.segment_sum(gate * h, g["graph_id"], num_segments=MAX_GRAPHS + 1)[:MAX_GRAPHS]
        return nn.Dense(N_TASK)(nn.silu(nn.Dense(self.dim)(pooled)))


def loss_fn(params, apply_fn, g):
    pred = apply_fn({"params": params}, g)
    err = optax.huber_loss(pred, g["y"]) * g["y_mask"]
    return err.sum() / jnp.maximum(g["y_mask"].sum(), 1)


@jax.jit
def train_step(state, g):
    loss, grads = jax.value_and_grad(loss_fn)(state.params, state.apply_fn, g)
    return state.apply_gradients(grads=grads), loss


def pad_to(x, n, value=0):
    extra = n - x.shape[0]
    if extra == 0:
        return x
    return np.concatenate([x, np.full((extra,) + x.shape[1:], value)])


def random_molecule(rng):
    n = int(rng.integers(5, 11))
    src = np.arange(n - 1)
    dst = src + 1
    y = rng.normal(size=N_TASK).astype(np.float32)
    y[rng.random(N_TASK) < 0.2] = np.nan
    return {
        "atom": rng.integers(0, N_ATOM, n),
        "bond": np.tile(rng.integers(0, N_BOND, n - 1), 2),
        "senders": np.concatenate([src, dst]),
        "receivers": np.concatenate([dst, src]),
        "y": y,
    }


def batch_graphs(mols):
    off = np.cumsum([0] + [len(m["atom"]) for m in mols])
    cat = lambda k: np.concatenate([m[k] for m in mols])
    shift = lambda k: np.concatenate([m[k] + o for m, o in zip(mols, off)])
    graph_id = np.repeat(np.arange(len(mols)), np.diff(off))
    y = np.stack([m["y"] for m in mols])
    n_edges = sum(len(m["bond"]) for m in mols)
    return {
        "atom": pad_to(cat("atom"), MAX_NODES),
        "bond": pad_to(cat("bond"), MAX_EDGES),
        "senders": pad_to(shift("senders"), MAX_EDGES, MAX_NODES - 1),
        "receivers": pad_to(shift("receivers"), MAX_EDGES, MAX_NODES - 1),
        "edge_mask": np.arange(MAX_EDGES) < n_edges,
        "graph_id": pad_to(graph_id, MAX_NODES, MAX_GRAPHS),
        "y": pad_to(np.nan_to_num(y), MAX_GRAPHS),
        "y_mask": pad_to(np.isfinite(y), MAX_GRAPHS, 0.0),
    }


def main(n_mols=29, dump=None):
    rng = np.random.default_rng(0)
    mols = [random_molecule(rng) for _ in range(n_mols)]
    batches = [batch_graphs(mols[i:i + MAX_GRAPHS]) for i in range(0, n_mols, MAX_GRAPHS)]
    model = MPNN()
    params = model.init(jax.random.PRNGKey(0), batches[0])["params"]
    state = train_state.TrainState.create(apply_fn=model.apply, params=params, tx=optax.adam(1e-3))
    for epoch in range(2):
        for i, g in enumerate(batches):
            if dump:
                with open(os.path.join(dump, f"call{epoch}_{i}.hlo"), "w") as f:
                    f.write(train_step.lower(state, g).compiler_ir("hlo").as_hlo_text())
            state, loss = train_step(state, g)
        print(epoch, f"{float(loss):.4f}", train_step._cache_size())


if __name__ == "__main__":
    main(dump=sys.argv[1] if len(sys.argv) > 1 else None)
