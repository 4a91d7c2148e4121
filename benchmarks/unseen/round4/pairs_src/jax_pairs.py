"""Pairs q11..q20, made by jax.jit(f).lower(...).compiler_ir("hlo").as_hlo_text(). Usage: python jax_pairs.py qNN a|b"""
import re
import sys

import jax
import jax.numpy as jnp
from jax import lax

NAME, V = sys.argv[1], sys.argv[2]
A = V == "a"
f32 = jnp.float32


def S(*shape, dtype=f32):
    return jax.ShapeDtypeStruct(shape, dtype)


def text(f, *args):
    return jax.jit(f).lower(*args).compiler_ir("hlo").as_hlo_text()


def q11():  # direction of the second of two scans
    def rnn(xs, w, u):
        def cell(h, x):
            h = jnp.tanh(x @ w + h @ u)
            return h, h
        _, f = lax.scan(cell, jnp.zeros((4, 8)), xs)
        _, b = lax.scan(cell, jnp.zeros((4, 8)), f, reverse=A)
        return f + b
    return text(rnn, S(6, 4, 8), S(8, 8), S(8, 8))


def q12():  # precision of one of three products
    def mlp(x, a, b, c):
        h = jax.nn.relu(jnp.dot(x, a))
        h = jax.nn.relu(jnp.dot(h, b, precision=None if A else lax.Precision.HIGHEST))
        return jnp.dot(h, c)
    return text(mlp, S(4, 8), S(8, 8), S(8, 8), S(8, 3))


def q13():  # out-of-range rows: clamped, or filled with NaN
    def bag(table, ids, w):
        e = table.at[ids].get(mode="clip" if A else "fill")
        return (e * w[..., None]).sum(1)
    return text(bag, S(50, 8), S(4, 6, dtype=jnp.int32), S(4, 6))


def q14():  # the same: other function and variable names, dead code, an extra nested jit name
    if A:
        def step(params, batch):
            def loss_fn(p):
                h = jnp.tanh(batch @ p["w"] + p["b"])
                return (h ** 2).mean()
            loss, g = jax.value_and_grad(loss_fn)(params)
            return loss, {k: params[k] - 0.1 * g[k] for k in params}
        return text(step, {"b": S(8), "w": S(6, 8)}, S(5, 6))

    def train_iteration(weights, minibatch):
        def objective(q):
            hidden = jnp.tanh(minibatch @ q["w"] + q["b"])
            return (hidden ** 2).mean()
        value, grad = jax.value_and_grad(objective)(weights)
        return value, {name: weights[name] - 0.1 * grad[name] for name in weights}
    t = text(train_iteration, {"b": S(8), "w": S(6, 8)}, S(5, 6))
    # jax drops what no output needs before lowering; two dead instructions are put back by hand
    lines = t.split("\n")
    at = next(i for i, l in enumerate(lines) if re.match(r"\s+minibatch\.\d+ = .*parameter\(2\)", l))
    name = lines[at].split()[0]
    lines[at + 1:at + 1] = [f"  exp.901 = f32[5,6]{{1,0}} exponential({name})", "  sin.902 = f32[5,6]{1,0} sine(exp.901)"]
    return "\n".join(lines)


def q15():  # the second of two sorts is stable or not
    def rank(keys, vals):
        k, v = lax.sort((keys, vals), num_keys=1, is_stable=True)
        k2, v2 = lax.sort((v, k), num_keys=1, is_stable=A)
        return jnp.cumsum(v2), k2
    return text(rank, S(32), S(32))


def q16():  # number of Newton iterations in the inner loop: 10 or 12
    def solve(m):
        def body(i, x):
            def inner(j, y):
                return y * (2.0 - m * y)
            return lax.fori_loop(0, 10 if A else 12, inner, x) + 0.01 * x
        return lax.fori_loop(0, 5, body, jnp.full_like(m, 0.1))
    return text(solve, S(7, 7))


def q17():  # padding of the strided convolution: (0, 1) or (1, 0) on the width; equal output shapes
    def net(x, k1, k2):
        dn = ("NHWC", "HWIO", "NHWC")
        h = lax.conv_general_dilated(x, k1, (1, 1), "SAME", dimension_numbers=dn)
        h = jax.nn.relu(h)
        w = (0, 1) if A else (1, 0)
        return lax.conv_general_dilated(h, k2, (2, 2), ((0, 1), w), dimension_numbers=dn)
    return text(net, S(2, 8, 8, 3), S(3, 3, 3, 4), S(3, 3, 4, 4))


def q18():  # aggregation of the second message passing layer: sum or max
    def gnn(x, src, dst, w1, w2):
        h = jax.nn.relu(jax.ops.segment_sum((x @ w1)[src], dst, 10))
        agg = jax.ops.segment_sum if A else jax.ops.segment_max
        return agg((h @ w2)[src], dst, 10)
    i = S(30, dtype=jnp.int32)
    return text(gnn, S(10, 4), i, i, S(4, 6), S(6, 6))


def renumber_and_reorder(hlo, seed):
    """Another name for every instruction and another topological order in every computation.

    Parameters keep their numbers (parameter(n)) and the ROOT stays the root; computations stay callee-first.
    """
    import random
    r = random.Random(seed)
    out, block = [], []

    def flush():
        names = [re.match(r"\s*(?:ROOT )?([\w.\-]+) = ", l).group(1) for l in block]
        deps = {n: {t for t in re.findall(r"[\w.\-]+", l.split(" = ", 1)[1]) if t in names and t != n} for n, l in zip(names, block)}
        line = dict(zip(names, block))
        done, order, root = set(), [], next(n for n in names if "ROOT" in line[n].split(" = ")[0])
        while len(order) < len(names):
            ready = [n for n in names if n not in done and deps[n] <= done and (n != root or len(order) == len(names) - 1)]
            n = r.choice(ready)
            done.add(n)
            order.append(n)
        fresh = r.sample(range(100, 900), len(order))
        new = {n: re.sub(r"\.\d+$", "", n) + f".{k}" for n, k in zip(order, fresh)}
        for n in order:
            out.append(re.sub(r"[\w.\-]+", lambda m: new.get(m.group(0), m.group(0)) if m.group(0) in new else m.group(0), line[n]))
        block.clear()

    for l in hlo.split("\n"):
        if re.match(r"\s+(ROOT )?[\w.\-]+ = ", l):
            block.append(l)
        else:
            if block:
                flush()
            out.append(l)
    return "\n".join(out)


def q19():  # the same: b is a with other names and another topological order
    def lstm(xs, w, u, b):
        def cell(c, x):
            h, s = c
            i, f, g, o = jnp.split(x @ w + h @ u + b, 4, -1)
            s = jax.nn.sigmoid(f) * s + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(s)
            return (h, s), h
        z = jnp.zeros((3, 5))
        _, hs = lax.scan(cell, (z, z), xs)
        return jax.nn.softmax(hs, -1), jnp.linalg.norm(hs)
    t = text(lstm, S(7, 3, 4), S(4, 20), S(5, 20), S(20))
    return t if A else renumber_and_reorder(t, 3)


def q20():  # operands of one subtraction are exchanged, in the middle of a residual network
    def net(x, ws, anchors):
        for i, (w, a) in enumerate(zip(ws, anchors)):
            h = jax.nn.silu(x @ w)
            d = (h - a) if (A or i != 3) else (a - h)
            x = x + d * jax.nn.sigmoid(d)
        return x.sum(-1)
    return text(net, S(4, 8), [S(8, 8)] * 6, [S(4, 8)] * 6)


sys.stdout.write(globals()[NAME]())
