# Recurrent Q-learning for elevator dispatching. The network sees a short
# history of hall calls; an LSTM summarises it (scan over time), a dueling
# head gives the values of the four dispatch actions.
import jax
import jax.numpy as jnp
from jax import lax, random

OBS, HID, ACTIONS = 10, 20, 4
GAMMA, TAU, LR = 0.96, 0.02, 7e-4


def dense(key, n_in, n_out, scale=1.0):
    w = scale * random.normal(key, (n_in, n_out)) / jnp.sqrt(n_in)
    return {"w": w, "b": jnp.zeros((n_out,))}


def apply(layer, x):
    return x @ layer["w"] + layer["b"]


def new_network(key):
    ks = random.split(key, 5)
    return {
        "encode": dense(ks[0], OBS, HID),
        "lstm": dense(ks[1], 2 * HID, 4 * HID),
        "value": dense(ks[2], HID, 1, 0.1),
        "advantage": dense(ks[3], HID, ACTIONS, 0.1),
    }


def lstm_step(layer, carry, x):
    c, h = carry
    i, f, g, o = jnp.split(apply(layer, jnp.concatenate([x, h], -1)), 4, axis=-1)
    c = jax.nn.sigmoid(f + 1.0) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    h = jax.nn.sigmoid(o) * jnp.tanh(c)
    return (c, h), h


def q_values(net, obs, reset):
    """obs [T, B, OBS]; reset [T, B] is one at the first step of an episode."""
    x = jax.nn.relu(apply(net["encode"], obs))

    def body(carry, inputs):
        x_t, r_t = inputs
        carry = jax.tree.map(lambda s: s * (1.0 - r_t)[:, None], carry)
        return lstm_step(net["lstm"], carry, x_t)

    zero = jnp.zeros((obs.shape[1], HID))
    _, hs = lax.scan(body, (zero, zero), (x, reset))
    adv = apply(net["advantage"], hs)
    return apply(net["value"], hs) + adv - adv.mean(axis=-1, keepdims=True)


def td_loss(online, target, batch):
    q = q_values(online, batch["obs"], batch["reset"])
    q_taken = jnp.take_along_axis(q[:-1], batch["action"][..., None], -1)[..., 0]
    q_next = q_values(target, batch["obs"], batch["reset"])[1:]
    best = jnp.argmax(q[1:], axis=-1)
    bootstrap = jnp.take_along_axis(q_next, best[..., None], -1)[..., 0]
    goal = batch["reward"] + GAMMA * (1.0 - batch["reset"][1:]) * lax.stop_gradient(bootstrap)
    err = q_taken - goal
    huber = jnp.where(jnp.abs(err) < 1.0, 0.5 * err ** 2, jnp.abs(err) - 0.5)
    return huber.mean(), jnp.abs(err).mean()


@jax.jit
def learn(online, target, second_moment, batch):
    (loss, td), grads = jax.value_and_grad(td_loss, has_aux=True)(online, target, batch)
    second_moment = jax.tree.map(lambda s, g: 0.95 * s + 0.05 * g ** 2, second_moment, grads)
    online = jax.tree.map(
        lambda p, g, s: p - LR * g / jnp.sqrt(s + 1e-5), online, grads, second_moment)
    target = jax.tree.map(lambda t, p: t + TAU * (p - t), target, online)
    return online, target, second_moment, {"loss": loss, "td_error": td}


def replay_batch(key, length=8, batch=16):
    k1, k2, k3, k4 = random.split(key, 4)
    obs = random.normal(k1, (length + 1, batch, OBS))
    action = random.randint(k2, (length, batch), 0, ACTIONS)
    waiting = jnp.abs(obs[1:, :, :4]).sum(-1)
    reward = -0.1 * waiting + 0.3 * (action == jnp.argmax(obs[:-1, :, :4], -1))
    reset = random.bernoulli(k3, 0.1, (length + 1, batch)).astype(jnp.float32)
    noise = 0.01 * random.normal(k4, reward.shape)
    return {"obs": obs, "action": action, "reward": reward + noise, "reset": reset}


def setup(seed=3):
    key = random.PRNGKey(seed)
    online = new_network(key)
    target = jax.tree.map(jnp.copy, online)
    second = jax.tree.map(jnp.ones_like, online)
    return online, target, second, random.fold_in(key, 1)


def main():
    online, target, second, key = setup()
    for it in range(40):
        batch = replay_batch(random.fold_in(key, it))
        online, target, second, info = learn(online, target, second, batch)
        if (it + 1) % 10 == 0:
            print(it + 1, {k: round(float(v), 4) for k, v in info.items()})


if __name__ == "__main__":
    main()
