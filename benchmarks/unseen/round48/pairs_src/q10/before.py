"""Graph attention on a power grid: predicts bus voltage angles from injections, one training step."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

BUSES, LINES, HEADS, WIDTH = 12, 34, 2, 5


def segment_softmax(logits, segments, num):
    top = jax.ops.segment_max(logits, segments, num)
    ex = jnp.exp(logits - jax.lax.stop_gradient(top)[segments])
    return ex / (jax.ops.segment_sum(ex, segments, num)[segments] + 1e-9)


class GridAttention(nn.Module):
    @nn.compact
    def __call__(self, x, edge, src, dst):
        h = nn.Dense(HEADS * WIDTH, use_bias=False)(x).reshape(-1, HEADS, WIDTH)
        e = nn.Dense(HEADS * WIDTH)(edge).reshape(-1, HEADS, WIDTH)
        att = self.param("att", nn.initializers.normal(0.3), (HEADS, WIDTH))
        logits = (nn.leaky_relu(h[src] + h[dst] + e, 0.2) * att).sum(-1)
        alpha = segment_softmax(logits, dst, BUSES)
        msg = alpha[..., None] * (h[src] + e)
        agg = jax.ops.segment_sum(msg, dst, BUSES).reshape(BUSES, -1)
        return nn.elu(agg) + nn.Dense(HEADS * WIDTH)(x)


class AngleNet(nn.Module):
    @nn.compact
    def __call__(self, bus, edge, src, dst):
        x = GridAttention()(bus, edge, src, dst)
        x = nn.LayerNorm()(x)
        x = GridAttention()(x, edge, src, dst)
        theta = nn.Dense(1)(x)[:, 0]
        return theta - theta[0]          # bus 0 is the slack bus


net = AngleNet()
tx = optax.lion(optax.linear_schedule(1e-3, 1e-5, 1000), weight_decay=1e-2)


def loss_fn(params, g):
    theta = net.apply(params, g["bus"], g["edge"], g["src"], g["dst"])
    fit = jnp.square(theta - g["theta"]).mean()
    flow = g["edge"][:, 0] * jnp.sin(theta[g["src"]] - theta[g["dst"]])
    balance = jax.ops.segment_sum(flow, g["src"], BUSES) - g["bus"][:, 0]
    return fit + 0.1 * jnp.abs(balance).mean(), fit


def train_step(params, opt_state, g):
    (loss, fit), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, g)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss, fit


def main(out):
    key = jax.random.PRNGKey(9)
    ks = jax.random.split(key, 5)
    half = jax.random.randint(ks[0], (2, LINES // 2), 0, BUSES)
    g = {
        "src": jnp.concatenate([half[0], half[1]]),
        "dst": jnp.concatenate([half[1], half[0]]),
        "edge": jax.random.uniform(ks[1], (LINES, 2)),
        "bus": jax.random.normal(ks[2], (BUSES, 3)),
        "theta": 0.2 * jax.random.normal(ks[3], (BUSES,)),
    }
    params = net.init(ks[4], g["bus"], g["edge"], g["src"], g["dst"])
    opt_state = tx.init(params)
    step = jax.jit(train_step)
    with open(out, "w") as f:
        f.write(step.lower(params, opt_state, g).compiler_ir("hlo").as_hlo_module().to_string())
    for i in range(3):
        params, opt_state, loss, fit = step(params, opt_state, g)
        print(i, float(loss), float(fit))


if __name__ == "__main__":
    main(sys.argv[1])
