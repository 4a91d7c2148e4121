"""Single-layer language model, nested parameters and a NamedTuple train state."""
import os
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

CFG = {"vocab": 23, "model": 12, "heads": 3, "length": 9, "batch": 4}
OPT = {"lr": 0.1, "momentum": 0.9, "decay": 1e-3}


class TrainState(NamedTuple):
    velocity: Any
    weights: Any


def make_weights(seed, cfg):
    rng = np.random.default_rng(seed)
    d, f = cfg["model"], 3 * cfg["model"]

    def dense(n_in, n_out):
        return jnp.asarray(rng.normal(size=(n_in, n_out)).astype(np.float32) / np.sqrt(n_in))

    tok = dense(cfg["vocab"], d)
    q, k, v, o = (dense(d, d) for _ in range(4))
    up, gate, down = dense(d, f), dense(d, f), dense(f, d)
    ones = jnp.ones(d)
    return {
        "readout": dense(d, cfg["vocab"]),
        "mixer": {"ln": ones, "query": q, "key": k, "value": v, "out": o},
        "mlp": {"ln": ones, "up": up, "gate": gate, "down": down},
        "tokens": tok,
    }


def normalize(gain, x):
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(centred), axis=-1, keepdims=True)
    return gain * (centred / jnp.sqrt(variance + 1e-5))


class Model:
    def __init__(self, cfg):
        self.heads = cfg["heads"]

    def mixer(self, w, x, valid):
        b, t, d = x.shape
        dh = d // self.heads

        def project(m):
            return jnp.einsum("btd,dhe->bthe", x, m.reshape(d, self.heads, dh))

        value, key, query = project(w["value"]), project(w["key"]), project(w["query"])
        score = jnp.einsum("bqhe,bkhe->bhqk", query, key) / np.sqrt(dh)
        pos = jnp.arange(t)
        blocked = (pos[None, :] > pos[:, None])[None] | ~valid[:, None, :]
        score = jnp.where(blocked[:, None], -1e9, score)
        prob = jax.nn.softmax(score, axis=-1)
        mixed = jnp.einsum("bhqk,bkhe->bqhe", prob, value)
        return jnp.einsum("bqhe,hef->bqf", mixed, w["out"].reshape(self.heads, dh, d))

    def mlp(self, w, x):
        up = jnp.dot(x, w["up"])
        gate = jnp.dot(x, w["gate"])
        return jnp.dot(up * (gate * jax.nn.sigmoid(gate)), w["down"])

    def __call__(self, w, tokens, valid):
        h = w["tokens"][tokens]
        h = self.mixer(w["mixer"], normalize(w["mixer"]["ln"], h), valid) + h
        h = self.mlp(w["mlp"], normalize(w["mlp"]["ln"], h)) + h
        return jnp.dot(h, w["readout"])


model = Model(CFG)


def objective(w, valid, tokens):
    logits = model(w, tokens, valid)[:, :-1, :]
    target = tokens[:, 1:]
    log_prob = jax.nn.log_softmax(logits, axis=-1)
    hit = jnp.take_along_axis(log_prob, target[:, :, None], axis=2).squeeze(2)
    mask = valid[:, 1:].astype(jnp.float32)
    return jnp.sum(mask * -hit) / jnp.sum(mask)


def sgd(state, grads):
    velocity = jax.tree.map(
        lambda v, g, w: (g + OPT["decay"] * w) + OPT["momentum"] * v,
        state.velocity, grads, state.weights,
    )
    weights = jax.tree.map(lambda w, v: w - v * OPT["lr"], state.weights, velocity)
    return TrainState(velocity, weights)


@jax.jit
def step(tokens, valid, state):
    value, grads = jax.value_and_grad(objective)(state.weights, valid, tokens)
    return value, sgd(state, grads)


def stream(seed, cfg):
    rng = np.random.default_rng(seed)
    while True:
        tokens = rng.integers(0, cfg["vocab"], size=(cfg["batch"], cfg["length"]))
        n = rng.integers(4, cfg["length"] + 1, size=(cfg["batch"], 1))
        yield tokens.astype(np.int32), np.arange(cfg["length"])[None] < n


if __name__ == "__main__":
    weights = make_weights(0, CFG)
    state = TrainState(jax.tree.map(jnp.zeros_like, weights), weights)
    batches = stream(1, CFG)
    for i in range(5):
        tokens, valid = next(batches)
        if i == 0 and "DUMP_HLO" in os.environ:
            text = step.lower(tokens, valid, state).compiler_ir(dialect="hlo").as_hlo_text()
            with open(os.environ["DUMP_HLO"], "w") as out:
                out.write(text)
        value, state = step(tokens, valid, state)
        print(i, float(value))
