"""Counts of ATAC cuts per peak from one-hot DNA: dilated residual convolutions
(flax), negative-binomial likelihood, optax chain."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.special import gammaln

TRACKS, SEQ = 3, 20


class PeakNet(nn.Module):
    width: int = 6
    dilations: tuple = (2, 4)

    @nn.compact
    def __call__(self, dna):
        x = nn.gelu(nn.Conv(self.width, (5,), name="stem")(dna))
        for d in self.dilations:
            y = nn.LayerNorm(name=f"ln{d}")(x)
            y = nn.relu(nn.Conv(self.width, (3,), kernel_dilation=(d,), name=f"conv{d}")(y))
            x = x + y
        x = x.mean(axis=1)
        log_mu = nn.Dense(TRACKS, name="rate")(x)
        log_disp = self.param("log_disp", nn.initializers.constant(-1.0), (TRACKS,))
        return log_mu, log_disp


def nb_nll(log_mu, log_disp, counts, size_factor):
    mu = jnp.exp(log_mu) * size_factor[:, None]
    r = jnp.exp(-log_disp)
    ll = (gammaln(counts + r) - gammaln(r) - gammaln(counts + 1.0)
          + r * (jnp.log(r) - jnp.log(r + mu))
          + counts * (jnp.log(mu) - jnp.log(r + mu)))
    return -ll.mean()


def decay_mask(params):
    return jax.tree_util.tree_map(lambda x: x.ndim > 1, params)


model = PeakNet()
tx = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.add_decayed_weights(1e-2, mask=decay_mask),
    optax.scale_by_adam(b2=0.98),
    optax.scale_by_learning_rate(2e-3),
)


def loss_fn(params, batch):
    log_mu, log_disp = model.apply({"params": params}, batch["dna"])
    return nb_nll(log_mu, log_disp, batch["counts"], batch["size_factor"])


@jax.jit
def train_step(params, opt_state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss, "gnorm": optax.global_norm(grads)}


def make_batch(rng, n=4):
    bases = rng.integers(0, 4, size=(n, SEQ))
    return {
        "dna": np.eye(4, dtype=np.float32)[bases],
        "counts": rng.poisson(5.0, size=(n, TRACKS)).astype(np.float32),
        "size_factor": rng.uniform(0.5, 2.0, size=n).astype(np.float32),
    }


def main(out):
    rng = np.random.default_rng(97)
    batch = make_batch(rng)
    params = model.init(jax.random.PRNGKey(3), batch["dna"])["params"]
    state = tx.init(params)
    lowered = train_step.lower(params, state, batch)
    with open(out, "w") as f:
        f.write(lowered.compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(3):
        params, state, logs = train_step(params, state, make_batch(rng))
        print(i, {k: float(v) for k, v in logs.items()})


if __name__ == "__main__":
    main(sys.argv[1])
