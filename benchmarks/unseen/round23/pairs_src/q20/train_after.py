from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

CFG = dict(d_user=14, d_doc=18, hidden=24, embed=12, batch=10,
           lr=0.1, momentum=0.9, wd=1e-3, tau=0.2)


class Tower(NamedTuple):
    proj_out: jax.Array
    norm_bias: jax.Array
    norm_scale: jax.Array
    bias_in: jax.Array
    proj_in: jax.Array

    @classmethod
    def create(cls, k_in, k_out, d_in, hidden, embed):
        def uniform(key, shape):
            bound = np.sqrt(6.0 / sum(shape))
            return jax.random.uniform(key, shape, minval=-bound, maxval=bound)
        return cls(
            proj_out=uniform(k_out, (hidden, embed)),
            norm_bias=jnp.zeros(hidden),
            norm_scale=jnp.ones(hidden),
            bias_in=jnp.zeros(hidden),
            proj_in=uniform(k_in, (d_in, hidden)),
        )

    def __call__(self, x):
        pre = jnp.einsum("hd,bd->bh", self.proj_in.T, x) + self.bias_in
        centred = pre - jnp.mean(pre, axis=-1, keepdims=True)
        inv = jax.lax.rsqrt(jnp.mean(jnp.square(centred), axis=-1, keepdims=True) + 1e-5)
        act = jnp.maximum(centred * inv * self.norm_scale + self.norm_bias, 0.0)
        out = jnp.einsum("bh,he->be", act, self.proj_out)
        return out * jax.lax.rsqrt(jnp.square(out).sum(-1, keepdims=True) + 1e-8)


class Model(NamedTuple):
    doc: Tower
    user: Tower
    log_tau: jax.Array


class TrainState(NamedTuple):
    velocity: Model
    model: Model


def create_state(seed, c):
    k = jax.random.split(jax.random.PRNGKey(seed), 4)
    model = Model(
        doc=Tower.create(k[2], k[3], c["d_doc"], c["hidden"], c["embed"]),
        user=Tower.create(k[0], k[1], c["d_user"], c["hidden"], c["embed"]),
        log_tau=jnp.array(np.log(c["tau"]), jnp.float32),
    )
    return TrainState(velocity=jax.tree.map(jnp.zeros_like, model), model=model)


def contrastive_loss(model, user_x, doc_x):
    scores = jnp.einsum("ie,je->ij", model.user(user_x), model.doc(doc_x))
    scores = scores * jnp.exp(-model.log_tau)
    rows = jnp.diagonal(jax.nn.log_softmax(scores, axis=1))
    cols = jnp.diagonal(jax.nn.log_softmax(scores, axis=0))
    return -(rows.mean() + cols.mean()) / 2


def make_update(c):
    def apply(state, doc_x, user_x):
        loss, grads = jax.value_and_grad(contrastive_loss)(state.model, user_x, doc_x)
        velocity = jax.tree.map(
            lambda v, g, w: c["momentum"] * v + (g + c["wd"] * w),
            state.velocity, grads, state.model)
        model = jax.tree.map(lambda w, v: w - c["lr"] * v, state.model, velocity)
        return loss, TrainState(velocity, model)
    return jax.jit(apply)


def stream(seed, c):
    rng = np.random.default_rng(seed)
    mix_u = rng.normal(size=(5, c["d_user"]))
    mix_d = rng.normal(size=(5, c["d_doc"]))
    while True:
        z = rng.normal(size=(c["batch"], 5))
        u = np.tanh(z @ mix_u) + 0.1 * rng.normal(size=(c["batch"], c["d_user"]))
        d = np.tanh(z @ mix_d) + 0.1 * rng.normal(size=(c["batch"], c["d_doc"]))
        yield u.astype(np.float32), d.astype(np.float32)


def run(c, steps):
    state = create_state(3, c)
    step_fn = make_update(c)
    for n, (u, d) in zip(range(steps), stream(0, c)):
        loss, state = step_fn(state, d, u)
        sq = sum(float(jnp.vdot(w, w)) for w in jax.tree.leaves(state.model))
        print(f"{n}  loss={float(loss):.5f}  |w|={sq ** 0.5:.5f}")


if __name__ == "__main__":
    run(CFG, 6)
