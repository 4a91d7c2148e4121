"""Neural ODE for drug concentrations (two compartments, learned clearance),
Heun steps by lax.scan between doses, fitted to sparse samples."""
import sys

import jax
import jax.numpy as jnp
import optax


def init(key, covariates=3, width=10):
    k = jax.random.split(key, 4)
    return {
        "enc": {"w": 0.4 * jax.random.normal(k[0], (covariates, width)),
                "b": jnp.zeros(width)},
        "vol": {"w": 0.1 * jax.random.normal(k[1], (width, 2)),
                "b": jnp.zeros(2)},
        "rate": {"w1": 0.4 * jax.random.normal(k[2], (width + 2, width)),
                 "b1": jnp.zeros(width),
                 "w2": 0.1 * jax.random.normal(k[3], (width, 3)),
                 "b2": jnp.array([-1.0, -2.0, -2.0])},
        "log_sigma": jnp.array(-1.0),
    }


def field(rate, ctx, y):
    h = jnp.concatenate([jnp.log1p(jnp.abs(y)), ctx], -1)
    h = jnp.tanh(h @ rate["w1"] + rate["b1"])
    cl, k12, k21 = jnp.split(jax.nn.softplus(h @ rate["w2"] + rate["b2"]), 3, -1)
    central, peripheral = y[:, :1], y[:, 1:]
    out = k12 * central - k21 * peripheral
    return jnp.concatenate([-cl * central - out, out], -1)


def heun(f, y, dt):
    k1 = f(y)
    k2 = f(y + dt * k1)
    return y + 0.5 * dt * (k1 + k2)


def simulate(params, cov, doses, dt):
    ctx = jax.nn.gelu(cov @ params["enc"]["w"] + params["enc"]["b"])
    vol = jnp.exp(ctx @ params["vol"]["w"] + params["vol"]["b"])

    def step(y, dose):
        y = y.at[:, 0].add(dose / vol[:, 0])
        y = heun(lambda s: field(params["rate"], ctx, s), y, dt)
        return y, y[:, 0] * vol[:, 1]

    y0 = jnp.zeros((cov.shape[0], 2))
    _, conc = jax.lax.scan(step, y0, doses.T)
    return conc.T


def loss_fn(params, batch):
    conc = simulate(params, batch["cov"], batch["dose"], 0.5)
    sigma = jnp.exp(params["log_sigma"])
    res = (jnp.log1p(conc) - jnp.log1p(batch["obs"])) / sigma
    nll = optax.huber_loss(res, delta=1.5) + params["log_sigma"]
    seen = batch["seen"]
    return jnp.sum(nll * seen) / jnp.maximum(jnp.sum(seen), 1.0)


def make_optimizer():
    schedule = optax.cosine_decay_schedule(3e-3, 500)
    return optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.scale_by_rms(decay=0.95),
        optax.scale_by_learning_rate(schedule),
    )


def main():
    params = init(jax.random.PRNGKey(0))
    opt = make_optimizer()
    state = opt.init(params)

    def train_step(params, state, batch):
        loss, grads = jax.value_and_grad(loss_fn)(params, batch)
        updates, state = opt.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    def batch(i, n=4, t=12):
        k = jax.random.split(jax.random.PRNGKey(i), 4)
        return {"cov": jax.random.normal(k[0], (n, 3)),
                "dose": jnp.where(jnp.arange(t)[None] % 6 == 0,
                                  jax.random.uniform(k[1], (n, 1)) * 5, 0.0),
                "obs": jax.random.uniform(k[2], (n, t)) * 3,
                "seen": (jax.random.uniform(k[3], (n, t)) < 0.4) * 1.0}

    step = jax.jit(train_step)
    text = step.lower(params, state, batch(0)).compiler_ir("hlo").as_hlo_module().to_string()
    with open(sys.argv[1], "w") as f:
        f.write(text)
    for i in range(4):
        params, state, loss = step(params, state, batch(i))
        print(i, round(float(loss), 6))


if __name__ == "__main__":
    main()
