import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax import struct

# Mean-teacher consistency training on two-moons like points, half labelled.

LABELLED, UNLABELLED = 6, 10
CONSISTENCY = 0.3
TEACHER_DECAY = 0.95


class PointNet(nn.Module):
    hidden: int = 20
    classes: int = 2

    @nn.compact
    def __call__(self, pts):
        h = nn.Dense(self.hidden)(pts)
        h = nn.relu(nn.RMSNorm()(h))
        h = nn.Dense(self.hidden)(h)
        h = nn.relu(nn.RMSNorm()(h))
        return nn.Dense(self.classes)(h)


@struct.dataclass
class MeanTeacher:
    step: jax.Array
    student: dict
    teacher: dict
    opt: optax.OptState


def create(rng, net, tx):
    student = net.init(rng, jnp.zeros((1, 2)))["params"]
    # the teacher is only used for inference, half the memory is enough
    teacher = jax.tree.map(lambda p: p.astype(jnp.bfloat16), student)
    return MeanTeacher(jnp.zeros((), jnp.int32), student, teacher, tx.init(student))


def make_train_step(net, tx):

    def losses(params, teacher, x, y, u, key):
        k1, k2 = jax.random.split(key)
        logits = net.apply({"params": params}, x)
        sup = optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()
        view1 = u + 0.1 * jax.random.normal(k1, u.shape)
        view2 = u + 0.1 * jax.random.normal(k2, u.shape)
        p_student = nn.softmax(net.apply({"params": params}, view1))
        p_teacher = nn.softmax(net.apply({"params": teacher}, view2))
        con = jnp.sum((p_student - jax.lax.stop_gradient(p_teacher)) ** 2, axis=-1).mean()
        return sup + CONSISTENCY * con, (sup, con)

    @jax.jit
    def train_step(state, x, y, u, key):
        key = jax.random.fold_in(key, state.step)
        (_, parts), grads = jax.value_and_grad(losses, has_aux=True)(
            state.student, state.teacher, x, y, u, key
        )
        updates, opt = tx.update(grads, state.opt, state.student)
        student = optax.apply_updates(state.student, updates)
        teacher = jax.tree.map(
            lambda t, s: TEACHER_DECAY * t + (1 - TEACHER_DECAY) * s, state.teacher, student
        )
        return MeanTeacher(state.step + 1, student, teacher, opt), parts

    return train_step


def moons(rng, n):
    side = rng.integers(0, 2, n)
    angle = rng.uniform(0, np.pi, n)
    x = np.where(side, 1 - np.cos(angle), np.cos(angle))
    y = np.where(side, 0.5 - np.sin(angle), np.sin(angle))
    pts = np.stack([x, y], -1) + 0.05 * rng.normal(size=(n, 2))
    return pts.astype(np.float32), side.astype(np.int32)


def main(steps=5):
    rng = np.random.default_rng(4)
    net = PointNet()
    tx = optax.chain(optax.add_decayed_weights(1e-4), optax.sgd(0.1, momentum=0.9))
    state = create(jax.random.PRNGKey(0), net, tx)
    train_step = make_train_step(net, tx)
    key = jax.random.PRNGKey(99)
    for i in range(steps):
        x, y = moons(rng, LABELLED)
        u, _ = moons(rng, UNLABELLED)
        state, (sup, con) = train_step(state, x, y, u, key)
        print(f"{i}: supervised {float(sup):.4f} consistency {float(con):.5f}")


if __name__ == "__main__":
    main()
