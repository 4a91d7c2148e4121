"""Conditional RealNVP for galaxy photometric redshifts, trained with optax."""
import sys

import jax
import jax.numpy as jnp
import optax

DIM, COND, HID, LAYERS = 4, 6, 12, 3


def init_layer(key):
    k1, k2 = jax.random.split(key)
    return {
        "w1": jax.random.normal(k1, (DIM // 2 + COND, HID)) * 0.3,
        "b1": jnp.zeros((HID,)),
        "w2": jax.random.normal(k2, (HID, DIM)) * 0.05,
        "b2": jnp.zeros((DIM,)),
        "scale": jnp.zeros((DIM,)),
        "shift": jnp.zeros((DIM,)),
    }


def init(key):
    return [init_layer(k) for k in jax.random.split(key, LAYERS)]


def coupling(p, x, c, flip):
    x = x * jnp.exp(p["scale"]) + p["shift"]
    xa, xb = jnp.split(x, 2, axis=-1)
    if flip:
        xa, xb = xb, xa
    h = jax.nn.gelu(jnp.concatenate([xa, c], -1) @ p["w1"] + p["b1"])
    s, t = jnp.split(h @ p["w2"] + p["b2"], 2, axis=-1)
    s = 2.0 * jnp.tanh(s / 2.0)
    xb = xb * jnp.exp(s) + t
    logdet = s.sum(-1) + p["scale"].sum()
    out = (xb, xa) if flip else (xa, xb)
    return jnp.concatenate(out, -1), logdet


def log_prob(params, x, c):
    ld = jnp.zeros(x.shape[0])
    for i, p in enumerate(params):
        x, d = coupling(p, x, c, flip=bool(i % 2))
        ld = ld + d
    base = -0.5 * (x ** 2).sum(-1) - 0.5 * DIM * jnp.log(2 * jnp.pi)
    return base + ld


def loss_fn(params, batch):
    noisy = batch["x"] + batch["err"] * batch["noise"]
    lp = log_prob(params, noisy, batch["c"])
    return -(lp * batch["w"]).sum() / batch["w"].sum()


schedule = optax.warmup_cosine_decay_schedule(0.0, 3e-3, 20, 200)
tx = optax.chain(
    optax.scale_by_adam(b2=0.98),
    optax.clip_by_global_norm(1.0),
    optax.add_decayed_weights(1e-4),
    optax.scale_by_learning_rate(schedule),
)


def step(params, opt_state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"nll": loss, "gnorm": optax.global_norm(grads)}


def make_batch(key, n=16):
    ks = jax.random.split(key, 5)
    return {
        "x": jax.random.normal(ks[0], (n, DIM)),
        "err": 0.1 * jax.random.uniform(ks[1], (n, DIM)),
        "noise": jax.random.normal(ks[2], (n, DIM)),
        "c": jax.random.normal(ks[3], (n, COND)),
        "w": jax.random.uniform(ks[4], (n,)),
    }


def main(path):
    key = jax.random.PRNGKey(0)
    params = init(key)
    opt_state = tx.init(params)
    batch = make_batch(key)
    lowered = jax.jit(step).lower(params, opt_state, batch)
    with open(path, "w") as f:
        f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    fn = jax.jit(step)
    for i in range(4):
        key, sub = jax.random.split(key)
        params, opt_state, m = fn(params, opt_state, make_batch(sub))
        print(i, float(m["nll"]), float(m["gnorm"]))


if __name__ == "__main__":
    main(sys.argv[1])
