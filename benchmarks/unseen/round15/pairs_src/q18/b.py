"""Rod conductivity from thermocouples (PINN), second implementation."""
from typing import Any, NamedTuple
import argparse

import jax
from jax import numpy as np


class Affine(NamedTuple):
    shift: Any
    matrix: Any


class Unknowns(NamedTuple):
    conductivity: Any
    stack: list


class Points(NamedTuple):
    measured: Any
    where: Any
    colloc: Any


class Run(NamedTuple):
    polyak: Unknowns
    speed: Unknowns
    theta: Unknowns


N_HIDDEN, LAYERS = 20, 3


def field(stack, pos, time):
    z = np.stack([pos, time])
    *hidden, last = stack
    for lay in hidden:
        z = np.sin(z @ lay.matrix + lay.shift)
    return (z @ last.matrix + last.shift)[0]


class HeatProblem:
    def __init__(self, fidelity=10.0, beta=0.9, rate=2e-3, keep=0.995):
        self.fidelity, self.beta, self.rate, self.keep = fidelity, beta, rate, keep

    def defect(self, theta, point):
        pos, time = point[0], point[1]
        ddt = jax.grad(field, argnums=2)(theta.stack, pos, time)
        d2dx = jax.grad(jax.grad(field, argnums=1), argnums=1)(theta.stack, pos, time)
        return ddt - np.exp(theta.conductivity) * d2dx

    def cost(self, theta, pts):
        physics = np.mean(jax.vmap(lambda q: self.defect(theta, q))(pts.colloc) ** 2)
        guess = jax.vmap(lambda q: field(theta.stack, q[0], q[1]))(pts.where)
        misfit = np.mean((guess - pts.measured) ** 2)
        return physics + self.fidelity * misfit, (misfit, physics)

    def advance(self, pts, run):
        top = np.max(np.abs(pts.measured))
        (total, (misfit, physics)), slope = jax.value_and_grad(self.cost, has_aux=True)(run.theta, pts)
        speed = jax.tree.map(lambda s, g: self.beta * s + g, run.speed, slope)
        theta = jax.tree.map(lambda t, s: t - self.rate * s, run.theta, speed)
        polyak = jax.tree.map(lambda a, t: self.keep * a + (1000 - 995) / 1000 * t, run.polyak, theta)
        size = np.sqrt(np.sum(slope.stack[0].matrix ** 2))
        return (top, size, misfit, physics, total), Run(polyak, speed, theta)


def fresh(seed):
    dims = [2] + [N_HIDDEN] * LAYERS + [1]
    keys = jax.random.split(jax.random.PRNGKey(seed), len(dims))
    stack = [Affine(np.zeros(o), jax.random.normal(k, (i, o)) / i ** 0.5) for k, i, o in zip(keys, dims, dims[1:])]
    theta = Unknowns(np.zeros(()), stack)
    return Run(theta, jax.tree.map(np.zeros_like, theta), theta)


def observe(key, inside=24, sensors=12):
    a, b, c = jax.random.split(key, 3)
    where = jax.random.uniform(a, (sensors, 2))
    clean = np.sin(np.pi * where[:, 0]) * np.exp(-0.3 * np.pi ** 2 * where[:, 1])
    return Points(clean + 0.01 * jax.random.normal(b, clean.shape), where, jax.random.uniform(c, (inside, 2)))


def main():
    cli = argparse.ArgumentParser()
    cli.add_argument("--lower", default=None)
    opts = cli.parse_args()
    problem, run, key = HeatProblem(), fresh(5), jax.random.PRNGKey(8)
    if opts.lower:
        hlo = jax.jit(problem.advance).lower(observe(key), run).compiler_ir("hlo").as_hlo_text()
        open(opts.lower, "w").write(hlo)
        return
    go = jax.jit(problem.advance)
    for n, k in enumerate(jax.random.split(key, 60), 1):
        stats, run = go(observe(k), run)
        if n % 20 == 0:
            print(n, *(round(float(s), 5) for s in stats))


if __name__ == "__main__":
    main()
