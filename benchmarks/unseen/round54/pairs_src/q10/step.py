"""Greedy transcription with a small encoder-decoder speech model (JAX)."""
import jax
import jax.numpy as jnp
import numpy as np

VOCAB, DIM, HEADS, LAYERS = 64, 32, 4, 2
MELS, FRAMES, MAX_TOKENS = 16, 40, 24
START, LANGUAGE, TASK, NO_TIMESTAMPS, END = 60, 61, 62, 63, 59


def init(key):
    keys = iter(jax.random.split(key, 128))

    def linear(n_in, n_out):
        return dict(w=jax.random.normal(next(keys), (n_in, n_out)) * n_in ** -0.5, b=jnp.zeros(n_out))

    def norm():
        return dict(scale=jnp.ones(DIM), bias=jnp.zeros(DIM))

    def attn():
        return dict(q=linear(DIM, DIM), k=linear(DIM, DIM), v=linear(DIM, DIM), o=linear(DIM, DIM))

    decoder = [dict(n1=norm(), self=attn(), n2=norm(), cross=attn(), n3=norm(),
                    up=linear(DIM, 2 * DIM), down=linear(2 * DIM, DIM)) for _ in range(LAYERS)]
    return dict(frames=linear(2 * MELS, DIM), enc_norm=norm(),
                embed=jax.random.normal(next(keys), (VOCAB, DIM)) * 0.1,
                pos=jax.random.normal(next(keys), (MAX_TOKENS, DIM)) * 0.1,
                decoder=decoder, out_norm=norm())


def dense(p, x):
    return x @ p["w"] + p["b"]


def layer_norm(p, x):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(var + 1e-5) * p["scale"] + p["bias"]


def split(x):
    return x.reshape(*x.shape[:2], HEADS, DIM // HEADS)


def attend(p, q, k, v, mask=None):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (DIM // HEADS) ** -0.5
    if mask is not None:
        scores = jnp.where(mask, scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)
    return dense(p["o"], mixed.reshape(*mixed.shape[:2], DIM))


@jax.jit
def encode(params, mel):
    b, t, m = mel.shape
    x = dense(params["frames"], mel.reshape(b, t // 2, 2 * m))
    x = layer_norm(params["enc_norm"], jax.nn.gelu(x))
    return [dict(k=split(dense(p["cross"]["k"], x)), v=split(dense(p["cross"]["v"], x)))
            for p in params["decoder"]]


@jax.jit
def decode(params, memory, cache, tokens, index):
    """Runs the decoder over tokens that stand at index, index + 1, ..."""
    n = tokens.shape[1]
    where = index + jnp.arange(n)
    x = params["embed"][tokens] + params["pos"][where]
    mask = jnp.arange(MAX_TOKENS)[None, :] <= where[:, None]
    new_cache = []
    for p, mem, past in zip(params["decoder"], memory, cache):
        h = layer_norm(p["n1"], x)
        k = jax.lax.dynamic_update_slice(past["k"], split(dense(p["self"]["k"], h)), (0, index, 0, 0))
        v = jax.lax.dynamic_update_slice(past["v"], split(dense(p["self"]["v"], h)), (0, index, 0, 0))
        new_cache.append(dict(k=k, v=v))
        x = x + attend(p["self"], split(dense(p["self"]["q"], h)), k, v, mask)
        h = layer_norm(p["n2"], x)
        x = x + attend(p["cross"], split(dense(p["cross"]["q"], h)), mem["k"], mem["v"])
        x = x + dense(p["down"], jax.nn.gelu(dense(p["up"], layer_norm(p["n3"], x))))
    logits = layer_norm(params["out_norm"], x[:, -1]) @ params["embed"].T
    logp = jax.nn.log_softmax(logits.at[:, START:].set(-jnp.inf))
    token = logp.argmax(-1)
    return token, jnp.take_along_axis(logp, token[:, None], -1)[:, 0], new_cache


def transcribe(params, mel, max_new=6):
    b = mel.shape[0]
    memory = encode(params, mel)
    empty = jnp.zeros((b, MAX_TOKENS, HEADS, DIM // HEADS))
    cache = [dict(k=empty, v=empty) for _ in range(LAYERS)]
    tokens = jnp.tile(jnp.array([[START, LANGUAGE, TASK, NO_TIMESTAMPS]]), (b, 1))
    index, total, out = 0, jnp.zeros(b), []
    for _ in range(max_new):
        token, logp, cache = decode(params, memory, cache, tokens, jnp.int32(index))
        index += tokens.shape[1]
        total += logp
        out.append(np.asarray(token))
        if (out[-1] == END).all():
            break
        tokens = token[:, None]
    return np.stack(out, 1), total


def main():
    params = init(jax.random.PRNGKey(0))
    mel = np.random.default_rng(0).standard_normal((2, FRAMES, MELS)).astype(np.float32)
    text, score = transcribe(params, mel)
    print(text, np.asarray(score), decode._cache_size())


if __name__ == "__main__":
    main()
