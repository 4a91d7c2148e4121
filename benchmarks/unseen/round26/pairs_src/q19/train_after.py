import functools

import jax

jax.config.update("jax_num_cpu_devices", 4)

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

AXIS = "data"


class ResBlock(nn.Module):
    filters: int
    norm: object
    strides: int = 1

    @nn.compact
    def __call__(self, x):
        y = nn.Conv(self.filters, (3, 3), (self.strides, self.strides), use_bias=False)(x)
        y = nn.relu(self.norm()(y))
        y = nn.Conv(self.filters, (3, 3), use_bias=False)(y)
        y = self.norm(scale_init=nn.initializers.zeros)(y)
        if x.shape != y.shape:
            x = nn.Conv(self.filters, (1, 1), (self.strides, self.strides), use_bias=False)(x)
        return nn.relu(x + y)


class SmallResNet(nn.Module):
    classes: int
    width: int = 8

    @nn.compact
    def __call__(self, x, train):
        norm = functools.partial(
            nn.BatchNorm,
            use_running_average=not train,
            momentum=0.9,
            epsilon=1e-5,
        )
        x = nn.Conv(self.width, (3, 3), use_bias=False)(x)
        x = nn.relu(norm()(x))
        x = ResBlock(self.width, norm)(x)
        x = ResBlock(2 * self.width, norm, strides=2)(x)
        return nn.Dense(self.classes)(x.mean((1, 2)))


def make_optimizer():
    sched = optax.warmup_cosine_decay_schedule(0.0, 0.1, 5, 100)
    mask = lambda p: jax.tree.map(lambda v: v.ndim > 1, p)
    return optax.chain(
        optax.add_decayed_weights(5e-4, mask=mask),
        optax.sgd(sched, momentum=0.9, nesterov=True),
    )


def build_step(model, tx, mesh):
    def local_step(params, stats, opt_state, images, labels):
        def loss_fn(p):
            logits, new = model.apply(
                {"params": p, "batch_stats": stats}, images, train=True, mutable=["batch_stats"])
            loss = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
            return loss, (new["batch_stats"], logits)

        (loss, (new_stats, logits)), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
        grads = lax.pmean(grads, AXIS)
        new_stats = lax.pmean(new_stats, AXIS)
        acc = (logits.argmax(-1) == labels).mean()
        metrics = lax.pmean({"loss": loss, "acc": acc}, AXIS)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), new_stats, opt_state, metrics

    step = jax.shard_map(
        local_step,
        mesh=mesh,
        in_specs=(P(), P(), P(), P(AXIS), P(AXIS)),
        out_specs=P(),
        check_vma=False,
    )
    return jax.jit(step_named(step), donate_argnums=(0, 1, 2))


def step_named(step):
    def train_step(params, stats, opt_state, images, labels):
        return step(params, stats, opt_state, images, labels)

    return train_step


def stripes(rng, n, classes):
    y = rng.integers(0, classes, n)
    xx, yy = np.meshgrid(np.arange(8), np.arange(8))
    ang = np.pi * y / classes
    img = np.sin(xx[None] * np.cos(ang)[:, None, None] * 2 + yy[None] * np.sin(ang)[:, None, None] * 2)
    img = img[..., None] + 0.2 * rng.normal(size=(n, 8, 8, 2))
    return img.astype("float32"), y.astype("int32")


def main():
    mesh = Mesh(np.array(jax.devices()), (AXIS,))
    model = SmallResNet(classes=5)
    variables = model.init(jax.random.PRNGKey(0), jnp.zeros((1, 8, 8, 2)), train=False)
    params, stats = variables["params"], variables["batch_stats"]
    tx = make_optimizer()
    opt_state = tx.init(params)
    step = build_step(model, tx, mesh)
    rng = np.random.default_rng(0)
    for i in range(4):
        images, labels = stripes(rng, 16, 5)
        params, stats, opt_state, m = step(params, stats, opt_state, images, labels)
        print(i, {k: float(v) for k, v in m.items()})


if __name__ == "__main__":
    main()
