# Normalising flow for survey catalogues (rewritten around NamedTuples).
#
# The catalogue weights correct for the selection function of the survey; they come first in
# the argument list since most callers bind them with functools.partial.
import argparse
from typing import NamedTuple, Tuple

import jax
import numpy as np
from jax import numpy as jnp


class Affine(NamedTuple):
    """Kernel and offset. The offset comes first, as in the exported files."""

    offset: jax.Array
    kernel: jax.Array

    def __call__(self, v):
        return v @ self.kernel + self.offset


class Step(NamedTuple):
    translate: Affine
    log_scale: Affine
    hidden: Affine


class FitState(NamedTuple):
    velocity: Tuple[Step, ...]
    steps: Tuple[Step, ...]


def make_affine(rng, n_in, n_out, std):
    return Affine(jnp.zeros(n_out), jnp.asarray(rng.normal(size=(n_in, n_out)) * std, jnp.float32))


def make_steps(rng, dim, width, count):
    half = dim // 2
    return tuple(
        Step(
            translate=make_affine(rng, width, half, 0.1),
            log_scale=make_affine(rng, width, half, 0.1),
            hidden=make_affine(rng, half, width, 0.5),
        )
        for _ in range(count)
    )


def transform(step: Step, v, swapped: bool):
    half = v.shape[1] // 2
    left, right = v[:, :half], v[:, half:]
    fixed, moved = (right, left) if swapped else (left, right)
    features = jnp.tanh(step.hidden(fixed))
    scale = 2.0 * jnp.tanh(step.log_scale(features))
    moved = moved * jnp.exp(scale) + step.translate(features)
    parts = (moved, fixed) if swapped else (fixed, moved)
    return jnp.concatenate(parts, axis=1), scale.sum(axis=1)


def density(steps, v):
    """Log density of each row of v under the flow."""
    jacobian = jnp.zeros(v.shape[0])
    for number, step in enumerate(steps):
        v, contribution = transform(step, v, swapped=bool(number & 1))
        jacobian = jacobian + contribution
    dim = v.shape[1]
    gaussian = -0.5 * (v**2).sum(axis=1) - 0.5 * dim * np.log(2 * np.pi)
    return gaussian + jacobian


def objective(steps, catalogue, weights):
    value = -(weights * density(steps, catalogue)).sum() / weights.sum()
    return value


@jax.jit
def optimise(weights, catalogue, state: FitState):
    value, gradient = jax.value_and_grad(objective)(state.steps, catalogue, weights)
    velocity = jax.tree.map(lambda a, b: 0.95 * a + b, state.velocity, gradient)
    steps = jax.tree.map(lambda a, b: a - 5e-3 * b, state.steps, velocity)
    return value, FitState(velocity, steps)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    steps = make_steps(rng, dim=6, width=32, count=4)
    state = FitState(jax.tree.map(jnp.zeros_like, steps), steps)
    for _ in range(args.iterations):
        catalogue = rng.normal(size=(64, 6)).astype(np.float32)
        weights = rng.uniform(0.2, 2.0, 64).astype(np.float32)
        value, state = optimise(weights, catalogue, state)
        print("nll", round(float(value), 4))


if __name__ == "__main__":
    main()
