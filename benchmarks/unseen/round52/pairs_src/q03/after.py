"""Vessel track forecasting from AIS messages: GRU encoder / decoder under lax.scan, Gaussian NLL."""
import sys

import jax
import jax.numpy as jnp
import optax

HID, FEAT, OUT = 12, 5, 2
OBS, PRED, BATCH = 6, 4, 3


def dense_init(key, n_in, n_out):
    return {"w": jax.random.normal(key, (n_in, n_out)) / jnp.sqrt(n_in), "b": jnp.zeros(n_out)}


def init_params(key):
    ks = jax.random.split(key, 7)
    gru = lambda k1, k2, n: {"x": dense_init(k1, n, 3 * HID), "h": dense_init(k2, HID, 3 * HID)}
    return {
        "embed": dense_init(ks[0], FEAT, HID),
        "enc": gru(ks[1], ks[2], HID),
        "dec": gru(ks[3], ks[4], OUT + 1),
        "mean": dense_init(ks[5], HID, OUT),
        "logvar": dense_init(ks[6], HID, OUT),
    }


def dense(p, x):
    return x @ p["w"] + p["b"]


def gru_cell(p, h, x):
    xr, xz, xn = jnp.split(dense(p["x"], x), 3, axis=-1)
    hr, hz, hn = jnp.split(dense(p["h"], h), 3, axis=-1)
    r = jax.nn.sigmoid(xr + hr)
    z = jax.nn.sigmoid(xz + hz)
    n = jnp.tanh(xn + r * hn)
    return (1 - z) * n + z * h


def encode(params, track, mask):
    def body(h, inp):
        x, m = inp
        new = gru_cell(params["enc"], h, jnp.tanh(dense(params["embed"], x)))
        return jnp.where(m[:, None], new, h), None

    h0 = jnp.zeros((track.shape[0], HID))
    h, _ = jax.lax.scan(body, h0, (track.swapaxes(0, 1), mask.swapaxes(0, 1)))
    return h


def decode(params, h, last, dts):
    """dts: seconds between the messages to come."""
    def body(carry, dt):
        h, prev = carry
        h = gru_cell(params["dec"], h, jnp.concatenate([prev, dt[:, None]], axis=-1))
        mean = dense(params["mean"], h)
        logvar = jnp.clip(dense(params["logvar"], h), -6.0, 4.0)
        return (h, mean), (mean, logvar)

    _, (mean, logvar) = jax.lax.scan(body, (h, last), dts.swapaxes(0, 1))
    return mean.swapaxes(0, 1), logvar.swapaxes(0, 1)


def loss_fn(params, batch):
    h = encode(params, batch["track"], batch["mask"])
    mean, logvar = decode(params, h, batch["track"][:, -1, :OUT], batch["dt"])
    sq = (batch["target"] - mean) ** 2
    nll = 0.5 * (logvar + sq * jnp.exp(-logvar))
    valid = batch["valid"][..., None]
    loss = jnp.sum(nll * valid) / jnp.maximum(jnp.sum(valid), 1.0)
    ade = jnp.sqrt(jnp.sum(jnp.cumsum(batch["target"] - mean, axis=1) ** 2, axis=-1)).mean()
    return loss, {"ade": ade}


tx = optax.chain(
    optax.clip_by_global_norm(0.5),
    optax.lion(optax.cosine_decay_schedule(1e-3, 1000), weight_decay=1e-2),
)


@jax.jit
def train_step(params, opt_state, batch):
    (loss, aux), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, {"loss": loss, **aux}


def make_batch(key):
    ks = jax.random.split(key, 5)
    return {
        "track": jax.random.normal(ks[0], (BATCH, OBS, FEAT)),
        "mask": jax.random.uniform(ks[1], (BATCH, OBS)) > 0.2,
        "dt": jax.random.uniform(ks[2], (BATCH, PRED)),
        "target": jax.random.normal(ks[3], (BATCH, PRED, OUT)),
        "valid": (jax.random.uniform(ks[4], (BATCH, PRED)) > 0.1).astype(jnp.float32),
    }


if __name__ == "__main__":
    params = init_params(jax.random.key(5))
    opt_state = tx.init(params)
    if len(sys.argv) > 1:
        lowered = train_step.lower(params, opt_state, make_batch(jax.random.key(0)))
        with open(sys.argv[1], "w") as f:
            f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(3):
        params, opt_state, metrics = train_step(params, opt_state, make_batch(jax.random.key(i)))
        print({k: float(v) for k, v in metrics.items()})
