"""Knowledge-graph completion (drug repurposing graph): ComplEx scores with a small
type-aware gate, self-adversarial negative sampling, Adagrad."""
import os
import sys

import jax
import jax.numpy as jnp
import optax

ENT, REL, DIM, TYPES = 30, 7, 8, 3
BATCH, NEG = 10, 5
MARGIN, ADV_TEMP, REG = 4.0, 0.5, 1e-3

tx = optax.chain(optax.clip(1.0), optax.adagrad(5e-2))


def init_params(key):
    k = jax.random.split(key, 5)
    return {
        "ent_re": 0.3 * jax.random.normal(k[0], (ENT, DIM)),
        "ent_im": 0.3 * jax.random.normal(k[1], (ENT, DIM)),
        "rel": 0.3 * jax.random.normal(k[2], (REL, 2 * DIM)),
        "type_gate": {"w": 0.3 * jax.random.normal(k[3], (TYPES, 2 * DIM)), "b": jnp.zeros((2 * DIM,))},
        "proj": {"w": 0.3 * jax.random.normal(k[4], (2 * DIM, 2 * DIM)), "b": jnp.zeros((2 * DIM,))},
    }


def relation(params, r, types):
    """(batch,) relation ids, (batch, TYPES) -> real and imaginary part, (batch, DIM) each"""
    gate = jax.nn.sigmoid(types @ params["type_gate"]["w"] + params["type_gate"]["b"])
    v = jnp.tanh((gate * params["rel"][r]) @ params["proj"]["w"] + params["proj"]["b"])
    return jnp.split(v, 2, axis=-1)


def loss_fn(params, batch):
    h, r, o = batch["triples"].T
    h_re, h_im = params["ent_re"][h], params["ent_im"][h]
    r_re, r_im = relation(params, r, batch["types"])
    # rotate the heads once, then compare with the true tail and the negatives together
    query = jnp.concatenate([h_re * r_re - h_im * r_im, h_re * r_im + h_im * r_re], axis=-1)
    entities = jnp.concatenate([params["ent_re"], params["ent_im"]], axis=-1)
    tails = entities[jnp.concatenate([o[:, None], batch["negatives"]], axis=1)]
    scores = jnp.einsum("bd,bnd->bn", query, tails)
    pos, neg = scores[:, 0], scores[:, 1:]

    w = jax.nn.softmax(ADV_TEMP * jax.lax.stop_gradient(neg), axis=-1)
    pos_loss = jax.nn.softplus(-(pos + MARGIN))
    neg_loss = (w * jax.nn.softplus(neg + MARGIN)).sum(-1)
    n3 = (jnp.abs(jnp.stack([h_re, h_im])) ** 3).sum((0, 2))
    return jnp.average(0.5 * (pos_loss + neg_loss) + REG * n3, weights=batch["weight"])


def train_step(params, opt_state, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def make_batch(key):
    k = jax.random.split(key, 6)
    h, o = jax.random.randint(k[0], (2, BATCH), 0, ENT)
    r = jax.random.randint(k[1], (BATCH,), 0, REL)
    return {
        "triples": jnp.stack([h, r, o], axis=1),
        "negatives": jax.random.randint(k[2], (BATCH, NEG), 0, ENT),
        "types": jax.random.normal(k[3], (BATCH, TYPES)),
        "weight": jax.random.uniform(k[4], (BATCH,), minval=0.2, maxval=1.0),
    }


def main():
    params = init_params(jax.random.key(0))
    opt_state = tx.init(params)
    step = jax.jit(train_step)
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w") as f:
            f.write(step.lower(params, opt_state, make_batch(jax.random.key(1))).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(int(os.environ.get("STEPS", 3))):
        params, opt_state, loss = step(params, opt_state, make_batch(jax.random.key(10 + i)))
        print(i, repr(float(loss)), [float(jnp.abs(p).sum()) for p in jax.tree.leaves(params)])


if __name__ == "__main__":
    main()
