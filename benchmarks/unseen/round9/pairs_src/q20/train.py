"""Graph classification, message passing on padded edge lists."""
import argparse

import jax
import jax.numpy as jnp
import numpy as np

NODES, EDGES, FEAT, HID, CLASSES, LAYERS = 14, 40, 8, 16, 3, 3


def linear_init(rng, i, o):
    return {"w": (rng.standard_normal((i, o)) * i ** -0.5).astype(np.float32), "b": np.zeros(o, np.float32)}


class GraphNet:
    def __init__(self, hidden=HID, layers=LAYERS):
        self.hidden, self.layers = hidden, layers

    def init(self, seed):
        rng = np.random.default_rng(seed)
        h = self.hidden
        p = {"enc": linear_init(rng, FEAT, h)}
        for i in range(self.layers):
            p[f"conv{i}"] = {"msg": linear_init(rng, 2 * h, h), "upd": linear_init(rng, 2 * h, h),
                             "eps": np.zeros((), np.float32)}
        p["att"] = linear_init(rng, h, 1)
        p["cls"] = linear_init(rng, h, CLASSES)
        return jax.tree.map(jnp.asarray, p)

    @staticmethod
    def lin(p, x):
        return x @ p["w"] + p["b"]

    def conv(self, p, x, src, dst, emask):
        m = jax.nn.relu(self.lin(p["msg"], jnp.concatenate([x[src], x[dst]], -1))) * emask[:, None]
        agg = jnp.zeros_like(x).at[dst].add(m)
        deg = jnp.zeros(x.shape[0]).at[dst].add(emask)
        agg = agg / jnp.maximum(deg, 1.0)[:, None]
        return (1 + p["eps"]) * x + jax.nn.elu(self.lin(p["upd"], jnp.concatenate([x, agg], -1)))

    def single(self, p, g):
        x = self.lin(p["enc"], g["x"])
        for i in range(self.layers):
            x = self.conv(p[f"conv{i}"], x, g["src"], g["dst"], g["emask"])
        score = jnp.where(g["nmask"] > 0, self.lin(p["att"], jnp.tanh(x))[:, 0], -1e9)
        pooled = jax.nn.softmax(score) @ x
        return self.lin(p["cls"], pooled)

    def __call__(self, p, batch):
        return jax.vmap(self.single, (None, 0))(p, batch)


def global_norm(tree):
    return jnp.sqrt(sum(jnp.vdot(x, x) for x in jax.tree.leaves(tree)))


def make_step(net, lr, clip, decay):
    def objective(p, batch, y):
        logp = jax.nn.log_softmax(net(p, batch))
        onehot = jax.nn.one_hot(y, CLASSES)
        return -(onehot * logp).sum(-1).mean(), (logp.argmax(-1) == y).mean()

    @jax.jit
    def step(p, sq, batch, y):
        (loss, acc), g = jax.value_and_grad(objective, has_aux=True)(p, batch, y)
        norm = global_norm(g)
        g = jax.tree.map(lambda x: x * jnp.minimum(1.0, clip / (norm + 1e-6)), g)
        sq = jax.tree.map(lambda s, x: decay * s + (1 - decay) * x * x, sq, g)
        p = jax.tree.map(lambda w, x, s: w - lr * x * jax.lax.rsqrt(s + 1e-6), p, g, sq)
        return p, sq, {"loss": loss, "acc": acc, "grad_norm": norm}

    return step


def graphs(rng, n):
    y = rng.integers(0, CLASSES, n)
    size = rng.integers(7, NODES + 1, n)
    src, dst = (rng.integers(0, size[:, None], (n, EDGES)) for _ in range(2))
    return {
        "x": (rng.standard_normal((n, NODES, FEAT)) + y[:, None, None] * 0.3).astype(np.float32),
        "src": src.astype(np.int32), "dst": dst.astype(np.int32),
        "emask": (rng.random((n, EDGES)) < 0.8).astype(np.float32),
        "nmask": (np.arange(NODES) < size[:, None]).astype(np.float32),
    }, y.astype(np.int32)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--hlo")
    ap.add_argument("--steps", type=int, default=12)
    ap.add_argument("--eval-first", action="store_true")
    args = ap.parse_args()
    net, rng = GraphNet(), np.random.default_rng(0)
    p = net.init(0)
    sq = jax.tree.map(jnp.zeros_like, p)
    if args.eval_first:
        batch, y = graphs(rng, 5)
        print("untrained acc", float((jax.jit(net.__call__)(p, batch).argmax(-1) == y).mean()))
    step = make_step(net, lr=3e-3, clip=1.0, decay=0.95)
    for i in range(args.steps):
        batch, y = graphs(rng, 5)
        p, sq, m = step(p, sq, batch, y)
        if i % 4 == 0:
            print(i, {k: round(float(v), 4) for k, v in m.items()})
    if args.hlo:
        with open(args.hlo, "w") as f:
            f.write(step.lower(p, sq, batch, y).as_text("hlo", debug_info=True))


if __name__ == "__main__":
    main()
