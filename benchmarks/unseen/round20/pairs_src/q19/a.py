"""Gaussian policy gradient learner (A2C) with a shared torso."""
import sys
import jax
import jax.numpy as jnp
import numpy as np

OBS, ACT, HID = 10, 3, 48


def forward(params, obs):
    h = jnp.tanh(obs @ params["torso_w"] + params["torso_b"])
    mean = h @ params["actor_w"] + params["actor_b"]
    value = (h @ params["critic_w"] + params["critic_b"])[:, 0]
    return mean, params["log_std"], value


def loss_fn(params, obs, act, adv, ret):
    mean, log_std, value = forward(params, obs)
    z = (act - mean) * jnp.exp(-log_std)
    logp = -0.5 * jnp.sum(z * z, -1) - jnp.sum(log_std)
    policy = -jnp.mean(logp * adv)
    critic = jnp.mean((value - ret) ** 2)
    return policy + 0.5 * critic


@jax.jit
def a2c_update(params, ms, obs, act, adv, ret):
    loss, grads = jax.value_and_grad(loss_fn)(params, obs, act, adv, ret)
    new_p, new_s = {}, {}
    for k in params:
        new_s[k] = 0.99 * ms[k] + 0.01 * grads[k] ** 2
        new_p[k] = params[k] - 7e-4 * grads[k] / (jnp.sqrt(new_s[k]) + 1e-5)
    return new_p, new_s, loss


SHAPES = dict(torso_w=(OBS, HID), torso_b=(HID,), actor_w=(HID, ACT), actor_b=(ACT,),
              critic_w=(HID, 1), critic_b=(1,), log_std=(ACT,))

if __name__ == "__main__":
    rng = np.random.default_rng(0)
    params = {k: jnp.asarray(rng.normal(size=s) * 0.1, jnp.float32) for k, s in SHAPES.items()}
    ms = {k: jnp.zeros(s) for k, s in SHAPES.items()}
    f = lambda *s: jnp.asarray(rng.normal(size=s), jnp.float32)
    obs, act, adv, ret = f(32, OBS), f(32, ACT), f(32), f(32)
    if len(sys.argv) > 1:
        text = a2c_update.lower(params, ms, obs, act, adv, ret).compiler_ir("hlo").as_hlo_text()
        open(sys.argv[1], "w").write(text)
    for _ in range(5):
        params, ms, loss = a2c_update(params, ms, obs, act, adv, ret)
    print(float(loss), [float(jnp.sum(params[k])) for k in SHAPES])
