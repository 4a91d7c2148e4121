"""PPO minibatch update for a continuous-control policy (JAX)."""
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(frozen=True)
class PPOConfig:
    obs_dim: int = 11
    act_dim: int = 3
    width: int = 32
    clip_eps: float = 0.2
    vf_coef: float = 0.5
    ent_coef: float = 0.003
    lr: float = 3e-4
    b1: float = 0.9
    b2: float = 0.999
    minibatch: int = 64


CFG = PPOConfig()


def mlp_init(key, sizes):
    layers = []
    for k, n_in, n_out in zip(jax.random.split(key, len(sizes)), sizes[:-1], sizes[1:]):
        layers.append({"w": jax.random.normal(k, (n_in, n_out)) / n_in**0.5, "b": jnp.zeros(n_out)})
    return layers


def mlp(layers, x):
    for layer in layers[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x @ layers[-1]["w"] + layers[-1]["b"]


def init(key, cfg):
    k1, k2 = jax.random.split(key)
    params = {
        "pi": mlp_init(k1, [cfg.obs_dim, cfg.width, cfg.width, cfg.act_dim]),
        "vf": mlp_init(k2, [cfg.obs_dim, cfg.width, cfg.width, 1]),
        "log_std": jnp.full(cfg.act_dim, -0.5),
    }
    zeros = jax.tree.map(jnp.zeros_like, params)
    opt = {"m": zeros, "v": jax.tree.map(jnp.zeros_like, params), "t": jnp.zeros((), jnp.int32)}
    return params, opt


def log_prob(params, obs, act):
    mean, log_std = mlp(params["pi"], obs), params["log_std"]
    z = (act - mean) * jnp.exp(-log_std)
    return jnp.sum(-0.5 * z**2 - log_std - 0.5 * np.log(2 * np.pi), axis=-1)


def ppo_loss(params, batch, cfg):
    logp = log_prob(params, batch["obs"], batch["act"])
    ratio = jnp.exp(logp - batch["logp"])
    adv = (batch["adv"] - batch["adv"].mean()) / (batch["adv"].std() + 1e-8)
    clipped = jnp.clip(ratio, 1 - cfg.clip_eps, 1 + cfg.clip_eps)
    pg = -jnp.mean(jnp.minimum(ratio * adv, clipped * adv))
    value = mlp(params["vf"], batch["obs"])[:, 0]
    vf = 0.5 * jnp.mean((value - batch["ret"]) ** 2)
    entropy = jnp.sum(params["log_std"] + 0.5 * np.log(2 * np.pi * np.e))
    return pg + cfg.vf_coef * vf - cfg.ent_coef * entropy


@functools.partial(jax.jit, donate_argnums=(0, 1))
def update(params, opt, batch):
    loss, grads = jax.value_and_grad(ppo_loss)(params, batch, CFG)
    t = opt["t"] + 1
    m = jax.tree.map(lambda a, g: CFG.b1 * a + (1 - CFG.b1) * g, opt["m"], grads)
    v = jax.tree.map(lambda a, g: CFG.b2 * a + (1 - CFG.b2) * g * g, opt["v"], grads)
    scale = CFG.lr * jnp.sqrt(1 - CFG.b2**t) / (1 - CFG.b1**t)
    params = jax.tree.map(lambda p, a, b: p - scale * a / (jnp.sqrt(b) + 1e-8), params, m, v)
    return params, {"m": m, "v": v, "t": t}, loss


def rollout(rng, cfg):
    n = cfg.minibatch
    f = lambda *s: rng.normal(size=s).astype(np.float32)
    return {"obs": f(n, cfg.obs_dim), "act": f(n, cfg.act_dim), "adv": f(n), "ret": f(n),
            "logp": -3.0 + 0.1 * f(n)}


def main():
    params, opt = init(jax.random.PRNGKey(5), CFG)
    rng = np.random.default_rng(1)
    for i in range(3):
        params, opt, loss = update(params, opt, rollout(rng, CFG))
        print(i, float(loss))


if __name__ == "__main__":
    main()
