"""Animal movement: a three-state HMM whose switching depends on covariates.

Steps are log-normal, turning angles wrapped Cauchy.  One optax step on the
negative log-likelihood of a handful of tracks.
"""
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

STATES, COVS, HID, TRACKS, LENGTH = 3, 4, 8, 5, 20


def init_params(key):
    k1, k2, k3 = jax.random.split(key, 3)
    return {
        "switch": {
            "w1": 0.3 * jax.random.normal(k1, (COVS, HID)),
            "b1": jnp.zeros(HID),
            "w2": 0.3 * jax.random.normal(k2, (HID, STATES * STATES)),
            "b2": 1.5 * jnp.eye(STATES).reshape(-1),
        },
        "step": {"mu": jnp.array([-1.0, 0.0, 1.0]), "log_sd": jnp.zeros(STATES)},
        "turn": {"loc": 0.1 * jax.random.normal(k3, (STATES,)), "rho": jnp.zeros(STATES)},
        "start": jnp.zeros(STATES),
    }


def emissions(params, length, angle):
    """Log-density of each observation in each state: (T, B) -> (T, B, S)."""
    log_len = jnp.log(length)[..., None]
    log_sd = params["step"]["log_sd"]
    z = (log_len - params["step"]["mu"]) * jnp.exp(-log_sd)
    steps = -0.5 * jnp.square(z) - log_sd - log_len - 0.5 * jnp.log(2.0 * jnp.pi)

    rho = jax.nn.sigmoid(params["turn"]["rho"])
    den = 1.0 + jnp.square(rho) - 2.0 * rho * jnp.cos(angle[..., None] - params["turn"]["loc"])
    turns = jnp.log1p(-jnp.square(rho)) - jnp.log(2.0 * jnp.pi) - jnp.log(den)
    return steps + turns


def transitions(p, cov):
    """(T, B, C) -> (T, B, S, S), rows normalized."""
    h = jnp.tanh(cov @ p["w1"] + p["b1"])
    logits = h @ p["w2"] + p["b2"]
    return jax.nn.log_softmax(logits.reshape(cov.shape[:-1] + (STATES, STATES)), axis=-1)


def loglik(params, length, angle, cov, mask):
    """The forward algorithm over all the tracks at once; time leads."""
    emit = emissions(params, length.T, angle.T)
    trans = transitions(params["switch"], jnp.swapaxes(cov, 0, 1)[1:])
    alpha = jax.nn.log_softmax(params["start"]) + emit[0]

    def body(alpha, inp):
        e, tr, keep = inp
        new = jax.nn.logsumexp(alpha[:, :, None] + tr, axis=1) + e
        return jnp.where(keep[:, None], new, alpha), None

    alpha, _ = jax.lax.scan(body, alpha, (emit[1:], trans, mask.T[1:]))
    return jax.nn.logsumexp(alpha, axis=-1)


def loss_fn(params, batch):
    ll = loglik(params, *batch)
    points = batch[3].sum()
    penalty = sum(jnp.sum(params["switch"][k] ** 2) for k in ("w1", "w2"))
    return -ll.sum() / points + 1e-3 * penalty


tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(5e-3))


def step(params, opt_state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def setup():
    params = init_params(jax.random.PRNGKey(18))
    r = np.random.RandomState(18)
    ends = r.randint(LENGTH // 2, LENGTH + 1, size=(TRACKS, 1))
    batch = (
        jnp.asarray(r.lognormal(size=(TRACKS, LENGTH)), jnp.float32),
        jnp.asarray(r.uniform(-np.pi, np.pi, size=(TRACKS, LENGTH)), jnp.float32),
        jnp.asarray(r.normal(size=(TRACKS, LENGTH, COVS)), jnp.float32),
        jnp.asarray(np.arange(LENGTH)[None] < ends),
    )
    return params, tx.init(params), batch


if __name__ == "__main__":
    args = setup()
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w") as f:
            f.write(jax.jit(step).lower(*args).compiler_ir("hlo").as_hlo_module().to_string())
    params, opt_state, batch = args
    for it in range(4):
        params, opt_state, loss = jax.jit(step)(params, opt_state, batch)
        print(it, float(loss))
