"""Physics-informed net for viscous Burgers, bf16 compute, loss balancing by gradient statistics."""
import os
import sys
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

NU = 0.01 / np.pi


class State(NamedTuple):
    params: Any
    opt: Any
    lam: dict
    step: Any


def init_mlp(key, sizes=(2, 16, 16, 1)):
    out = []
    for k, (i, o) in zip(jax.random.split(key, len(sizes) - 1), zip(sizes[:-1], sizes[1:])):
        out.append({"w": jax.random.normal(k, (i, o)) * np.sqrt(2.0 / (i + o)), "b": jnp.zeros((o,))})
    return out


def u(params, tx):
    h = tx
    for layer in params[:-1]:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    last = params[-1]
    return (h @ last["w"] + last["b"])[..., 0]


def low_precision(tree):
    return jax.tree.map(lambda a: a.astype(jnp.bfloat16), tree)


def residual(params, tx):
    def f(p):
        return u(params, p)

    def one(p):
        e_t = jnp.array([1, 0], p.dtype)
        e_x = jnp.array([0, 1], p.dtype)
        val, u_t = jax.jvp(f, (p,), (e_t,))
        u_x, u_xx = jax.jvp(lambda q: jax.jvp(f, (q,), (e_x,))[1], (p,), (e_x,))
        return u_t + val * u_x - NU * u_xx

    return jax.vmap(one)(tx)


def terms(params, batch):
    p, b = low_precision(params), low_precision(batch)
    return {
        "pde": jnp.mean(jnp.square(residual(p, b["col"]))),
        "ic": jnp.mean(jnp.square(u(p, b["ic"]) - b["u0"])),
        "bc": jnp.mean(jnp.square(u(p, b["bc"]))),
    }


def flat_abs(tree):
    return jnp.concatenate([jnp.abs(a).ravel() for a in jax.tree.leaves(tree)])


opt_rule = optax.adabelief(2e-3)


@jax.jit
def train_step(state, batch):
    def total(params):
        t = terms(params, batch)
        return t["pde"] + state.lam["ic"] * t["ic"] + state.lam["bc"] * t["bc"], t

    (loss, parts), grads = jax.value_and_grad(total, has_aux=True)(state.params)
    g_pde = flat_abs(jax.grad(lambda p: terms(p, batch)["pde"])(state.params)).max()
    lam = {}
    for name in ("ic", "bc"):
        g = flat_abs(jax.grad(lambda p: terms(p, batch)[name])(state.params)).mean()
        lam[name] = 0.9 * state.lam[name] + 0.1 * g_pde / (g * state.lam[name] + 1e-6)
    updates, opt = opt_rule.update(grads, state.opt, state.params)
    params = optax.apply_updates(state.params, updates)
    return State(params, opt, lam, state.step + 1), {"loss": loss, **parts}


def points(rng, n=32, m=8):
    x0 = rng.uniform(-1, 1, m)
    tb = rng.uniform(0, 1, m)
    return {
        "col": np.stack([rng.uniform(0, 1, n), rng.uniform(-1, 1, n)], -1).astype(np.float32),
        "ic": np.stack([np.zeros(m), x0], -1).astype(np.float32),
        "u0": (-np.sin(np.pi * x0)).astype(np.float32),
        "bc": np.stack([tb, np.sign(rng.uniform(-1, 1, m))], -1).astype(np.float32),
    }


def main(steps=6, dump=os.environ.get("HLO_DUMP")):
    rng = np.random.default_rng(0)
    params = init_mlp(jax.random.key(0))
    state = State(params, opt_rule.init(params), {"ic": 1.0, "bc": 1.0}, jnp.zeros((), jnp.int32))
    for i in range(steps):
        batch = points(rng)
        if dump:
            with open(f"{dump}.{i}", "w") as f:
                f.write(train_step.lower(state, batch).compiler_ir("hlo").as_hlo_text())
        state, logs = train_step(state, batch)
        print(i, {k: float(v) for k, v in logs.items()}, "compiled", train_step._cache_size(), file=sys.stderr)


if __name__ == "__main__":
    main()
