"""Patch classifier in bfloat16 with a hand-rolled optimizer."""
import functools

import jax
import jax.numpy as jnp
import numpy as np

HP = {
    "dtype": jnp.bfloat16,
    "image": 12,
    "patch": 4,
    "width": 32,
    "blocks": 2,
    "classes": 6,
    "batch": 8,
    "base_lr": 0.05,
    "warmup": 20,
    "momentum": 0.9,
}


def dense_init(key, din, dout, dtype):
    w = jax.random.normal(key, (din, dout), jnp.float32) / np.sqrt(din)
    return {"w": w.astype(dtype), "b": jnp.zeros((dout,), dtype)}


def init_model(key, hp):
    n_tok = (hp["image"] // hp["patch"]) ** 2
    keys = iter(jax.random.split(key, 2 + 4 * hp["blocks"]))
    dt, w = hp["dtype"], hp["width"]
    params = {"patch": dense_init(next(keys), hp["patch"] ** 2, w, dt)}
    for i in range(hp["blocks"]):
        params[f"block{i}"] = {
            "tok1": dense_init(next(keys), n_tok, 2 * n_tok, dt),
            "tok2": dense_init(next(keys), 2 * n_tok, n_tok, dt),
            "ch1": dense_init(next(keys), w, 2 * w, dt),
            "ch2": dense_init(next(keys), 2 * w, w, dt),
            "scale": jnp.ones((w,), dt),
        }
    params["head"] = dense_init(next(keys), w, hp["classes"], dt)
    return params


def dense(p, x):
    return x @ p["w"] + p["b"]


def norm(x, scale):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return (x - mu) * jax.lax.rsqrt(var + 1e-5) * scale


def patches(img, p):
    b, s, _ = img.shape
    n = s // p
    return img.reshape(b, n, p, n, p).transpose(0, 1, 3, 2, 4).reshape(b, n * n, p * p)


def forward(params, images, hp):
    x = dense(params["patch"], patches(images.astype(hp["dtype"]), hp["patch"]))
    for i in range(hp["blocks"]):
        p = params[f"block{i}"]
        y = norm(x, p["scale"]).swapaxes(1, 2)
        x = x + dense(p["tok2"], jax.nn.gelu(dense(p["tok1"], y))).swapaxes(1, 2)
        x = x + dense(p["ch2"], jax.nn.gelu(dense(p["ch1"], norm(x, p["scale"]))))
    return dense(params["head"], x.mean(1))


def loss_fn(params, images, labels, hp):
    logits = forward(params, images, hp).astype(jnp.float32)
    logp = jax.nn.log_softmax(logits)
    return -logp[jnp.arange(labels.shape[0]), labels].mean()


def warmup_lr(step, hp):
    frac = jnp.minimum((step + 1) / hp["warmup"], 1.0)
    return jnp.float32(hp["base_lr"]) * frac


def make_step(hp):
    @jax.jit
    def step_fn(params, buf, step, images, labels):
        loss, grads = jax.value_and_grad(functools.partial(loss_fn, hp=hp))(params, images, labels)
        buf = jax.tree.map(lambda m, g: (hp["momentum"] * m + g).astype(m.dtype), buf, grads)
        lr = warmup_lr(step, hp)
        params = jax.tree.map(lambda p, m: p - lr * m, params, buf)
        return params, buf, loss
    return step_fn


def main(hp=HP):
    rng = np.random.default_rng(0)
    params = init_model(jax.random.PRNGKey(2), hp)
    buf = jax.tree.map(jnp.zeros_like, params)
    step_fn = make_step(hp)
    for step in range(5):
        labels = rng.integers(0, hp["classes"], hp["batch"]).astype(np.int32)
        images = rng.normal(labels[:, None, None] * 0.3, 1.0, (hp["batch"], hp["image"], hp["image"])).astype(np.float32)
        params, buf, loss = step_fn(params, buf, jnp.int32(step), images, labels)
        print(step, float(loss))


if __name__ == "__main__":
    main()
