"""Radar nowcasting: encode some frames by ConvGRUs, roll out the next ones (inference)."""
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

BATCH, SIZE, PAST, AHEAD, CH = 2, 8, 3, 3, 6
DBZ_MEAN, DBZ_STD, DBZ_MIN, DBZ_MAX = 12.0, 14.5, -10.0, 65.0


def to_net(dbz):
    return (jnp.clip(dbz, DBZ_MIN, DBZ_MAX) - DBZ_MEAN) / DBZ_STD


def to_dbz(x):
    return jnp.clip(x * DBZ_STD + DBZ_MEAN, DBZ_MIN, DBZ_MAX)


def rain_rate(dbz):
    """Marshall-Palmer, mm/h; nothing below 5 dBZ."""
    rate = (10.0 ** (dbz / 10.0) / 200.0) ** 0.625
    return jnp.where(dbz < 5.0, 0.0, rate)


class ConvGRU(nn.Module):
    ch: int

    @nn.compact
    def __call__(self, h, x):
        gates = nn.Conv(2 * self.ch, (3, 3), name="gates")(jnp.concatenate([x, h], axis=-1))
        r, z = jnp.split(nn.sigmoid(gates), 2, axis=-1)
        cand = nn.Conv(self.ch, (3, 3), name="cand")(jnp.concatenate([x, r * h], axis=-1))
        return (1.0 - z) * h + z * jnp.tanh(cand)


class Cell(nn.Module):
    """Two levels, the lower one at half the resolution."""

    @nn.compact
    def __call__(self, state, frame):
        hi, lo = state
        x = nn.Conv(CH, (3, 3), name="stem")(frame)
        x = nn.leaky_relu(nn.GroupNorm(num_groups=2, name="norm")(x), 0.2)
        hi = ConvGRU(CH, name="gru_hi")(hi, x)
        lo = ConvGRU(CH, name="gru_lo")(lo, nn.avg_pool(hi, (2, 2), strides=(2, 2)))
        up = jax.image.resize(lo, hi.shape, "nearest")
        out = nn.Conv(1, (1, 1), name="head")(jnp.concatenate([hi, up], axis=-1))
        return (hi, lo), frame + out


class Nowcaster(nn.Module):
    @nn.compact
    def __call__(self, dbz):
        cell = Cell()
        b, _, h, w, _ = dbz.shape
        state = (jnp.zeros((b, h, w, CH)), jnp.zeros((b, h // 2, w // 2, CH)))
        past = to_net(dbz)
        for i in range(PAST):
            state, frame = cell(state, past[:, i])
        frames = [to_dbz(frame)]
        for _ in range(AHEAD - 1):
            state, frame = cell(state, to_net(frames[-1]))
            frames.append(to_dbz(frame))
        return jnp.stack(frames, axis=1)


net = Nowcaster()


def predict(params, dbz):
    out = net.apply({"params": params}, dbz)
    rate = rain_rate(out)
    area = (rate > 1.0).mean(axis=(2, 3, 4))
    return {"dbz": out, "rate": rate, "wet": area, "total": rate.sum(axis=1) * (5.0 / 60.0)}


def setup():
    r = np.random.RandomState(20)
    dbz = jnp.asarray(r.uniform(-20.0, 60.0, (BATCH, PAST, SIZE, SIZE, 1)), jnp.float32)
    return net.init(jax.random.PRNGKey(20), dbz)["params"], dbz


if __name__ == "__main__":
    args = setup()
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w") as f:
            f.write(jax.jit(predict).lower(*args).compiler_ir("hlo").as_hlo_module().to_string())
    out = jax.jit(predict)(*args)
    for i in range(AHEAD):
        print(i, *(round(float(v), 5) for v in (out["dbz"][:, i].mean(), out["rate"][:, i].mean())))
