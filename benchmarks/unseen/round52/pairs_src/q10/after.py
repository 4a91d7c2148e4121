"""Sleep staging from one EEG channel with few labels: mean teacher, flax + optax."""
import sys
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training import train_state

STAGES, SAMPLES, BATCH = 5, 48, 4
RAMP, CONSISTENCY, EMA = 200.0, 3.0, 0.99


class StageNet(nn.Module):
    @nn.compact
    def __call__(self, x):  # (B, T)
        x = x[..., None]
        for width in (6, 8):
            x = nn.Conv(width, (5,), strides=(2,))(x)
            x = nn.GroupNorm(num_groups=2)(x)
            x = nn.silu(x)
        score = nn.Dense(1)(jnp.tanh(nn.Dense(6)(x)))  # attention over time
        x = jnp.sum(jax.nn.softmax(score, axis=1) * x, axis=1)
        return nn.Dense(STAGES)(x)


class TeacherState(train_state.TrainState):
    teacher: Any


def augment(key, x):
    gain = 1.0 + 0.2 * jax.random.uniform(key, (x.shape[0], 1), minval=-1.0)
    return x * gain


def loss_fn(params, state, batch, key):
    k_student, k_teacher = jax.random.split(key)
    both = jnp.concatenate([batch["labeled"], batch["unlabeled"]])
    student = state.apply_fn({"params": params}, augment(k_student, both))
    teacher = state.apply_fn({"params": state.teacher}, augment(k_teacher, both))

    n = batch["labeled"].shape[0]
    ce = optax.softmax_cross_entropy_with_integer_labels(student[:n], batch["stage"]).mean()
    target = jax.lax.stop_gradient(jax.nn.softmax(teacher))
    consistency = jnp.mean((jax.nn.softmax(student) - target) ** 2)
    phase = 1.0 - jnp.clip(state.step / RAMP, 0.0, 1.0)
    weight = CONSISTENCY * jnp.exp(-5.0 * phase * phase)
    return ce + weight * consistency, {"ce": ce, "consistency": consistency}


@jax.jit
def train_step(state, batch, key):
    (loss, aux), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params, state, batch, key)
    decay = jnp.minimum(EMA, 1.0 - 1.0 / (state.step + 2.0))
    teacher = jax.tree.map(lambda t, p: decay * t + (1.0 - decay) * p, state.teacher, state.params)
    state = state.apply_gradients(grads=grads, teacher=teacher)
    return state, {"loss": loss, **aux}


def create_state(key):
    model = StageNet()
    params = model.init(key, jnp.zeros((1, SAMPLES)))["params"]
    tx = optax.sgd(optax.linear_schedule(0.05, 0.0, 1000), momentum=0.9, nesterov=True)
    return TeacherState.create(apply_fn=model.apply, params=params, tx=tx,
                               teacher=jax.tree.map(jnp.copy, params))


def make_batch(seed):
    ks = jax.random.split(jax.random.key(seed), 3)
    return {"labeled": jax.random.normal(ks[0], (BATCH, SAMPLES)),
            "unlabeled": jax.random.normal(ks[1], (2 * BATCH, SAMPLES)),
            "stage": jax.random.randint(ks[2], (BATCH,), 0, STAGES)}


def main(dump=None, steps=4):
    state = create_state(jax.random.key(2))
    key = jax.random.PRNGKey(7)
    if dump:
        lowered = train_step.lower(state, make_batch(0), key)
        with open(dump, "w") as f:
            f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(steps):
        state, metrics = train_step(state, make_batch(i), jax.random.fold_in(key, i))
        print({k: round(float(v), 6) for k, v in metrics.items()})


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
