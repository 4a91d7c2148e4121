"""Force matching for a small coarse-grained polymer potential."""
import sys
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import optax


@dataclass(frozen=True)
class Config:
    species: int = 5
    width: int = 16
    n_rbf: int = 10
    blocks: int = 1
    cutoff: float = 5.0
    w_energy: float = 0.1
    w_force: float = 1.0
    lr: float = 2e-3
    warmup: int = 20
    total: int = 400
    weight_decay: float = 1e-4
    clip: float = 5.0


CFG = Config()


def dense_init(key, n_in, n_out):
    return {"w": jax.random.normal(key, (n_in, n_out)) / jnp.sqrt(n_in), "b": jnp.zeros((n_out,))}


def init_params(key, cfg):
    ks = iter(jax.random.split(key, 4 * cfg.blocks + 4))
    p = {"embed": 0.5 * jax.random.normal(next(ks), (cfg.species, cfg.width)), "blocks": []}
    for _ in range(cfg.blocks):
        p["blocks"].append({
            "filter": dense_init(next(ks), cfg.n_rbf, cfg.width),
            "lin": dense_init(next(ks), cfg.width, cfg.width),
            "out": dense_init(next(ks), cfg.width, cfg.width),
        })
    p["head1"] = dense_init(next(ks), cfg.width, 8)
    p["head2"] = dense_init(next(ks), 8, 1)
    return p


def dense(p, x):
    return x @ p["w"] + p["b"]


def ssp(x):
    return jax.nn.softplus(x) - jnp.log(2.0)


def rbf(d, cfg):
    mu = jnp.linspace(0.0, cfg.cutoff, cfg.n_rbf)
    return jnp.exp(-2.0 * (d[..., None] - mu) ** 2)


def energy(params, R, Z, mask, cfg):
    """R: (N, 3), Z: (N,), mask: (N,) -> scalar energy of one frame."""
    dR = R[:, None] - R[None]
    eye = jnp.eye(R.shape[0])
    d = jnp.sqrt((dR ** 2).sum(-1) + eye)
    pair = mask[:, None] * mask[None] * (1.0 - eye)
    fc = 0.5 * (jnp.cos(jnp.pi * d / cfg.cutoff) + 1.0) * (d < cfg.cutoff) * pair
    g = rbf(d, cfg)

    h = params["embed"][Z]
    for blk in params["blocks"]:
        W = ssp(dense(blk["filter"], g)) * fc[..., None]
        m = jnp.einsum("ijc,jc->ic", W, dense(blk["lin"], h))
        h = h + dense(blk["out"], ssp(m))
    e = dense(params["head2"], ssp(dense(params["head1"], h)))[:, 0]
    return (e * mask).sum()


def energy_and_forces(params, R, Z, mask, cfg):
    e, g = jax.value_and_grad(energy, argnums=1)(params, R, Z, mask, cfg)
    return e, -g


def loss_fn(params, batch, cfg):
    e, f = jax.vmap(energy_and_forces, in_axes=(None, 0, 0, 0, None))(
        params, batch["R"], batch["Z"], batch["mask"], cfg)
    n = batch["mask"].sum(-1)
    l_e = (((e - batch["E"]) / n) ** 2).mean()
    sq = ((f - batch["F"]) ** 2).sum(-1) * batch["mask"]
    l_f = sq.sum() / (3.0 * n.sum())
    return cfg.w_energy * l_e + cfg.w_force * l_f, {"energy": l_e, "force": l_f}


def make_optimizer(cfg):
    sched = optax.warmup_cosine_decay_schedule(0.0, cfg.lr, cfg.warmup, cfg.total)
    txs = [optax.adamw(sched, weight_decay=cfg.weight_decay)]
    if cfg.clip > 0:
        txs.append(optax.clip_by_global_norm(cfg.clip))
    return optax.chain(*txs)


tx = make_optimizer(CFG)


def train_step(params, opt_state, batch):
    (loss, aux), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, batch, CFG)
    updates, opt_state = tx.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    aux["grad_norm"] = optax.global_norm(grads)
    return params, opt_state, loss, aux


def make_batch(seed, B=4, N=6):
    r = np.random.default_rng(seed)
    n = r.integers(4, N + 1, size=B)
    mask = (np.arange(N)[None] < n[:, None]).astype(np.float32)
    return {
        "R": r.normal(size=(B, N, 3)).astype(np.float32) * 1.5,
        "Z": r.integers(0, CFG.species, size=(B, N)).astype(np.int32),
        "mask": mask,
        "E": r.normal(size=B).astype(np.float32),
        "F": (r.normal(size=(B, N, 3)) * mask[..., None]).astype(np.float32),
    }


def main():
    params = init_params(jax.random.PRNGKey(0), CFG)
    opt_state = tx.init(params)
    step = jax.jit(train_step)
    if len(sys.argv) > 1:
        ir = step.lower(params, opt_state, make_batch(0)).compiler_ir("hlo")
        with open(sys.argv[1], "w") as fh:
            fh.write(ir.as_hlo_module().to_string())
        return
    for i in range(5):
        params, opt_state, loss, aux = step(params, opt_state, make_batch(i))
        print(i, float(loss), {k: float(v) for k, v in aux.items()})


if __name__ == "__main__":
    main()
