"""Small ResNet on 16x16 crops, data-parallel with shard_map and synchronised batch norm."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

AXIS = "data"
CLASSES = 7
MOMENTUM, WD, BN_DECAY, EPS = 0.9, 5e-4, 0.9, 1e-5


def he(key, shape):
    fan_in = np.prod(shape[:-1])
    return jax.random.normal(key, shape, jnp.float32) * np.sqrt(2.0 / fan_in)


def bn_init(ch):
    params = {"scale": jnp.ones((ch,)), "bias": jnp.zeros((ch,))}
    stats = {"mean": jnp.zeros((ch,)), "var": jnp.ones((ch,))}
    return params, stats


def batch_norm(p, stats, x, train):
    if train:
        axes = tuple(range(x.ndim - 1))
        mean = lax.pmean(jnp.mean(x, axes), AXIS)
        var = lax.pmean(jnp.mean(jnp.square(x), axes), AXIS) - jnp.square(mean)
        new = jax.tree.map(
            lambda old, cur: BN_DECAY * old + (1 - BN_DECAY) * lax.stop_gradient(cur),
            stats, {"mean": mean, "var": var})
    else:
        mean, var, new = stats["mean"], stats["var"], stats
    y = (x - mean) * lax.rsqrt(var + EPS) * p["scale"] + p["bias"]
    return y, new


def conv(x, w, stride=1):
    return lax.conv_general_dilated(x, w, (stride, stride), "SAME",
                                    dimension_numbers=("NHWC", "HWIO", "NHWC"))


def init(key, widths=(8, 12)):
    keys = iter(jax.random.split(key, 16))
    params, stats = {}, {}
    params["stem"] = he(next(keys), (3, 3, 3, widths[0]))
    params["stem_bn"], stats["stem_bn"] = bn_init(widths[0])
    cin = widths[0]
    for i, ch in enumerate(widths):
        blk, st = {}, {}
        blk["conv1"] = he(next(keys), (3, 3, cin, ch))
        blk["bn1"], st["bn1"] = bn_init(ch)
        blk["conv2"] = he(next(keys), (3, 3, ch, ch))
        blk["bn2"], st["bn2"] = bn_init(ch)
        if cin != ch:
            blk["short"] = he(next(keys), (1, 1, cin, ch))
        params[f"block{i}"], stats[f"block{i}"] = blk, st
        cin = ch
    params["fc"] = {"w": 0.01 * jax.random.normal(next(keys), (cin, CLASSES)),
                    "b": jnp.zeros((CLASSES,))}
    return params, stats


def apply(params, stats, x, train=True):
    out = {}
    x = conv(x, params["stem"])
    x, out["stem_bn"] = batch_norm(params["stem_bn"], stats["stem_bn"], x, train)
    x = jax.nn.relu(x)
    for name in sorted(k for k in params if k.startswith("block")):
        p, s, o = params[name], stats[name], {}
        stride = 2 if "short" in p else 1
        h = conv(x, p["conv1"], stride)
        h, o["bn1"] = batch_norm(p["bn1"], s["bn1"], h, train)
        h = conv(jax.nn.relu(h), p["conv2"])
        h, o["bn2"] = batch_norm(p["bn2"], s["bn2"], h, train)
        skip = conv(x, p["short"], stride) if "short" in p else x
        x = jax.nn.relu(h + skip)
        out[name] = o
    x = x.mean((1, 2))
    return x @ params["fc"]["w"] + params["fc"]["b"], out


def xent(logits, labels, smoothing=0.1):
    target = jax.nn.one_hot(labels, CLASSES) * (1 - smoothing) + smoothing / CLASSES
    return -(target * jax.nn.log_softmax(logits)).sum(-1).mean()


def train_step(params, stats, mom, x, y, lr):
    def loss_fn(p):
        logits, new_stats = apply(p, stats, x)
        return xent(logits, y), (logits, new_stats)

    (loss, (logits, stats)), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
    grads = lax.pmean(grads, AXIS)
    mom = jax.tree.map(lambda m, g, p: MOMENTUM * m + g + (WD * p if p.ndim > 1 else 0.0),
                       mom, grads, params)
    params = jax.tree.map(lambda p, m: p - lr * m, params, mom)
    acc = jnp.mean(logits.argmax(-1) == y)
    return params, stats, mom, lax.pmean({"loss": loss, "acc": acc}, AXIS)


def make_step(mesh):
    fn = jax.shard_map(train_step, mesh=mesh,
                       in_specs=(P(), P(), P(), P(AXIS), P(AXIS), P()),
                       out_specs=P(), check_vma=False)
    return jax.jit(fn, donate_argnums=(0, 1, 2))


def data(steps, batch=16, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        yield (rng.normal(size=(batch, 16, 16, 3)).astype(np.float32),
               rng.integers(0, CLASSES, batch).astype(np.int32))


def main(steps=3, on_step=None):
    mesh = Mesh(np.array(jax.devices()), (AXIS,))
    step = make_step(mesh)
    params, stats = init(jax.random.key(0))
    mom = jax.tree.map(jnp.zeros_like, params)
    for i, (x, y) in enumerate(data(steps)):
        lr = jnp.float32(0.1 * (i + 1) / steps)
        if on_step is not None:
            on_step(i, step, params, stats, mom, x, y, lr)
        params, stats, mom, metrics = step(params, stats, mom, x, y, lr)
        print(i, {k: float(v) for k, v in metrics.items()})


if __name__ == "__main__":
    main()
