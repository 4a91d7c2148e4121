"""Per-residue secondary structure (Q3) from one-hot sequence profiles."""
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

LENGTH, AA, CLASSES = 48, 21, 3


class ConvGLU(nn.Module):
    width: int
    dilation: int

    @nn.compact
    def __call__(self, x):
        h = nn.LayerNorm()(x)
        h = nn.Conv(2 * self.width, (5,), kernel_dilation=(self.dilation,))(h)
        a, b = jnp.split(h, 2, axis=-1)
        return x + nn.Dense(self.width)(a * nn.sigmoid(b))


class Q3(nn.Module):
    width: int = 24

    @nn.compact
    def __call__(self, seq):
        x = nn.Dense(self.width)(seq)
        for d in (1, 2):
            x = ConvGLU(self.width, d)(x)
        return nn.Dense(CLASSES)(nn.gelu(nn.LayerNorm()(x)))


def make_tx(total=100):
    schedule = optax.warmup_cosine_decay_schedule(0.0, 3e-3, 10, total)
    return optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.scale_by_adam(b1=0.9, b2=0.95),
        optax.add_decayed_weights(1e-2),
        optax.scale_by_learning_rate(schedule),
    )


model = Q3()
tx = make_tx()


def loss_fn(params, seq, lab, mask):
    logits = model.apply({"params": params}, seq)
    ce = optax.softmax_cross_entropy_with_integer_labels(logits, lab)
    return (ce * mask).sum() / jnp.maximum(mask.sum(), 1.0)


@jax.jit
def train_step(params, opt_state, seq, lab, mask):
    loss, grads = jax.value_and_grad(loss_fn)(params, seq, lab, mask)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def proteins(n, rng, batch=6):
    for _ in range(n):
        ids = rng.integers(0, AA, (batch, LENGTH))
        lens = rng.integers(20, LENGTH + 1, (batch, 1))
        mask = (np.arange(LENGTH)[None] < lens).astype(np.float32)
        yield np.eye(AA, dtype=np.float32)[ids], (ids % CLASSES).astype(np.int32), mask


def main(steps=5):
    rng = np.random.default_rng(6)
    params = model.init(jax.random.PRNGKey(1), jnp.zeros((1, LENGTH, AA)))["params"]
    opt_state = tx.init(params)
    for i, (seq, lab, mask) in enumerate(proteins(steps, rng)):
        params, opt_state, loss = train_step(params, opt_state, seq, lab, mask)
        print(i, f"{float(loss):.5f}")


if __name__ == "__main__":
    main()
