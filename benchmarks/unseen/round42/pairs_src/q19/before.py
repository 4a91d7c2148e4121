"""Set network on jets of particles (permutation invariant, pooling by attention), flax + optax."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

EVENTS, PARTS, FEAT, DIM, HEADS, CLASSES = 4, 6, 4, 12, 2, 3


def masked_softmax(logits, mask):
    logits = jnp.where(mask, logits, -1e9)
    return jax.nn.softmax(logits, axis=-1)


class Attend(nn.Module):
    """queries [Q, D] look at keys [N, D]; one event at a time"""
    dim: int
    heads: int

    @nn.compact
    def __call__(self, q_in, kv_in, mask):
        hd = self.dim // self.heads
        q = nn.Dense(self.dim, use_bias=False, name="q")(q_in)
        k = nn.Dense(self.dim, use_bias=False, name="k")(kv_in)
        v = nn.Dense(self.dim, use_bias=False, name="v")(kv_in)
        outs = []
        for h in range(self.heads):
            s = slice(h * hd, (h + 1) * hd)
            logits = q[:, s] @ k[:, s].T / jnp.sqrt(hd)
            outs.append(masked_softmax(logits, mask[None, :]) @ v[:, s])
        return nn.Dense(self.dim, name="o")(jnp.concatenate(outs, axis=-1))


class Block(nn.Module):
    dim: int
    heads: int

    @nn.compact
    def __call__(self, x, mask):
        x = x + Attend(self.dim, self.heads, name="attn")(nn.LayerNorm(name="n1")(x), nn.LayerNorm(name="n1kv")(x), mask)
        h = nn.Dense(2 * self.dim, name="up")(nn.LayerNorm(name="n2")(x))
        return x + nn.Dense(self.dim, name="down")(nn.gelu(h))


class EventNet(nn.Module):
    @nn.compact
    def __call__(self, parts, mask):
        x = nn.Dense(DIM, name="embed")(parts)
        x = Block(DIM, HEADS, name="block")(x, mask)
        seed = self.param("seed", nn.initializers.normal(0.5), (1, DIM))
        pooled = Attend(DIM, HEADS, name="pool")(seed, x, mask)[0]
        return nn.Dense(CLASSES, name="head")(pooled)


model = EventNet()
tx = optax.sgd(5e-2, momentum=0.9, nesterov=True)


def event_loss(params, parts, mask, label, weight):
    logits = model.apply({"params": params}, parts, mask)
    logp = jax.nn.log_softmax(logits)
    return -weight * logp[label], jnp.argmax(logits) == label


def loss_fn(params, batch):
    per, hit = jax.vmap(event_loss, (None, 0, 0, 0, 0))(
        params, batch["parts"], batch["mask"], batch["label"], batch["weight"])
    return jnp.sum(per) / jnp.sum(batch["weight"]), jnp.mean(hit.astype(jnp.float32))


@jax.jit
def train_step(params, opt_state, batch):
    (loss, acc), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss, acc


def make_batch(key):
    k = jax.random.split(key, 4)
    n = jax.random.randint(k[0], (EVENTS,), 2, PARTS + 1)
    return {"parts": jax.random.normal(k[1], (EVENTS, PARTS, FEAT)),
            "mask": jnp.arange(PARTS)[None, :] < n[:, None],
            "label": jax.random.randint(k[2], (EVENTS,), 0, CLASSES),
            "weight": jax.random.uniform(k[3], (EVENTS,), minval=0.5, maxval=2.0)}


def main(path):
    b = make_batch(jax.random.PRNGKey(0))
    params = model.init(jax.random.PRNGKey(7), b["parts"][0], b["mask"][0])["params"]
    opt_state = tx.init(params)
    with open(path, "w") as f:
        f.write(train_step.lower(params, opt_state, b).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(5):
        params, opt_state, loss, acc = train_step(params, opt_state, make_batch(jax.random.PRNGKey(i)))
        tot = sum(float(jnp.abs(p).sum()) for p in jax.tree_util.tree_leaves(params))
        print(i, float(loss), float(acc), tot)


if __name__ == "__main__":
    main(sys.argv[1])
