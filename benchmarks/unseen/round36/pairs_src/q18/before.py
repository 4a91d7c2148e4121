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


def logsumexp(x, axis):
    m = jax.lax.stop_gradient(jnp.max(x, axis=axis, keepdims=True))
    return jnp.log(jnp.sum(jnp.exp(x - m), axis=axis)) + jnp.squeeze(m, axis=axis)


def log_normal_pdf(p, length):
    """length: (), all the states: (S,)."""
    sd = jnp.exp(p["log_sd"])
    z = (jnp.log(length) - p["mu"]) / sd
    return -0.5 * z ** 2 - p["log_sd"] - jnp.log(length) - 0.5 * jnp.log(2.0 * jnp.pi)


def wrapped_cauchy_pdf(p, angle):
    rho = jax.nn.sigmoid(p["rho"])
    den = 1.0 + rho ** 2 - 2.0 * rho * jnp.cos(angle - p["loc"])
    return jnp.log(1.0 - rho ** 2) - jnp.log(2.0 * jnp.pi) - jnp.log(den)


def transition(p, cov):
    h = jnp.tanh(cov @ p["w1"] + p["b1"])
    logits = (h @ p["w2"] + p["b2"]).reshape(STATES, STATES)
    return logits - logsumexp(logits, axis=1)[:, None]


def track_loglik(params, length, angle, cov, mask):
    """The forward algorithm over one track: length, angle, mask (T,), cov (T, C)."""

    def emit(l, a):
        return log_normal_pdf(params["step"], l) + wrapped_cauchy_pdf(params["turn"], a)

    start = params["start"] - logsumexp(params["start"], axis=0)
    alpha = start + emit(length[0], angle[0])

    def body(alpha, inp):
        l, a, c, keep = inp
        trans = transition(params["switch"], c)
        new = logsumexp(alpha[:, None] + trans, axis=0) + emit(l, a)
        return jnp.where(keep, new, alpha), None

    alpha, _ = jax.lax.scan(body, alpha, (length[1:], angle[1:], cov[1:], mask[1:]))
    return logsumexp(alpha, axis=0)


def loss_fn(params, batch):
    ll = jax.vmap(track_loglik, in_axes=(None, 0, 0, 0, 0))(params, *batch)
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
