"""Next-day river stage on a gauge network: encode, message passing along reaches, decode."""
import argparse

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import train_state

GAUGES, REACHES = 14, 20


class MLP(nn.Module):
    width: int
    out: int

    @nn.compact
    def __call__(self, x):
        x = nn.silu(nn.Dense(self.width)(x))
        return nn.Dense(self.out)(x)


class Reach(nn.Module):
    """One round: update the edges, sum them at the downstream gauge, update the gauges."""
    width: int

    @nn.compact
    def __call__(self, nodes, edges, senders, receivers):
        up = nodes[:, senders]
        down = nodes[:, receivers]
        msg = MLP(self.width, self.width, name="edge")(
            jnp.concatenate([edges, up, down], axis=-1))
        edges = edges + msg
        inflow = jax.vmap(
            lambda e: jax.ops.segment_sum(e, senders, num_segments=GAUGES))(edges)
        delta = MLP(self.width, self.width, name="node")(
            jnp.concatenate([nodes, inflow], axis=-1))
        return nodes + delta, edges


class RiverNet(nn.Module):
    width: int = 12
    rounds: int = 2

    @nn.compact
    def __call__(self, stage, rain, reach, senders, receivers):
        nodes = nn.Dense(self.width, name="embed_nodes")(jnp.concatenate([stage, rain], -1))
        edges = nn.Dense(self.width, name="embed_edges")(reach)
        edges = jnp.broadcast_to(edges, (stage.shape[0],) + edges.shape)
        for i in range(self.rounds):
            nodes, edges = Reach(self.width, name=f"round_{i}")(nodes, edges, senders, receivers)
        return stage[..., -1] + MLP(self.width, 1, name="decode")(nodes)[..., 0]


def skill_loss(pred, truth, clim_var, valid):
    """1 - NSE like score: squared errors over the climatological variance of the gauge."""
    err = jnp.where(valid, jnp.square(pred - truth), 0.0) / clim_var
    return jnp.sum(err) / jnp.maximum(jnp.sum(valid), 1)


def make_optimizer():
    schedule = optax.warmup_cosine_decay_schedule(0.0, 3e-3, 20, 400)
    return optax.chain(
        optax.scale_by_adam(b2=0.99),
        optax.clip_by_global_norm(0.5),
        optax.scale_by_learning_rate(schedule),
    )


@jax.jit
def train_step(ts, batch, graph):
    def objective(params):
        pred = ts.apply_fn(params, batch["stage"], batch["rain"], graph["reach"],
                           graph["senders"], graph["receivers"])
        return skill_loss(pred, batch["truth"], graph["clim_var"], batch["valid"])

    loss, grads = jax.value_and_grad(objective)(ts.params)
    return ts.apply_gradients(grads=grads), loss


def network(rng):
    senders = np.arange(REACHES) % (GAUGES - 1)
    receivers = np.minimum(senders + 1 + rng.integers(0, 3, REACHES), GAUGES - 1)
    return {"senders": jnp.asarray(senders, jnp.int32),
            "receivers": jnp.asarray(receivers, jnp.int32),
            "reach": jnp.asarray(rng.normal(size=(REACHES, 3)), jnp.float32),
            "clim_var": jnp.asarray(rng.uniform(0.5, 2.0, GAUGES), jnp.float32)}


def days(rng, n=4, history=5):
    stage = np.cumsum(rng.normal(size=(n, GAUGES, history)), axis=-1) * 0.3
    rain = rng.exponential(size=(n, GAUGES, 2))
    truth = stage[..., -1] + 0.1 * rain.sum(-1)
    valid = rng.uniform(size=truth.shape) > 0.1
    return {"stage": jnp.asarray(stage, jnp.float32), "rain": jnp.asarray(rain, jnp.float32),
            "truth": jnp.asarray(truth, jnp.float32), "valid": jnp.asarray(valid)}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--dump")
    ap.add_argument("--steps", type=int, default=3)
    args = ap.parse_args()

    rng = np.random.default_rng(0)
    graph = network(rng)
    b = days(rng)
    model = RiverNet()
    params = model.init(jax.random.PRNGKey(0), b["stage"], b["rain"], graph["reach"],
                        graph["senders"], graph["receivers"])
    ts = train_state.TrainState.create(apply_fn=model.apply, params=params, tx=make_optimizer())
    if args.dump:
        low = train_step.lower(ts, b, graph)
        with open(args.dump, "w") as f:
            f.write(low.compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(args.steps):
        ts, loss = train_step(ts, days(rng), graph)
        print(i, float(loss))


if __name__ == "__main__":
    main()
