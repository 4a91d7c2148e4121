# kind: jax  mode: dump  pattern: eval_step
import jax
import jax.numpy as jnp

D, H = 32, 64


def lstm(p, xs): #A
    def cell(carry, x): #A
        h, c = carry #A
        z = x @ p["wx"] + h @ p["wh"] + p["b"] #A
        i, f, g, o = jnp.split(z, 4, -1) #A
        c = jax.nn.sigmoid(f + 1.0) * c + jax.nn.sigmoid(i) * jnp.tanh(g) #A
        h = jax.nn.sigmoid(o) * jnp.tanh(c) #A
        return (h, c), h #A
    z0 = jnp.zeros((xs.shape[1], H)) #A
    return jax.lax.scan(cell, (z0, z0), xs)[1] #A
def recurrent(weights, inputs): #B
    def one_step(state, inp): #B
        hidden, memory = state #B
        from_input = inp @ weights["input_kernel"] #B
        gates = from_input + hidden @ weights["hidden_kernel"] + weights["bias"] #B
        i, f, g, o = jnp.split(gates, 4, -1) #B
        memory = jax.nn.sigmoid(f + 1.0) * memory + jax.nn.sigmoid(i) * jnp.tanh(g) #B
        hidden = jax.nn.sigmoid(o) * jnp.tanh(memory) #B
        return (hidden, memory), hidden #B
    start = jnp.zeros((inputs.shape[1], H)) #B
    _, all_hidden = jax.lax.scan(one_step, (start, start), inputs) #B
    return all_hidden #B


@jax.jit
def eval_step(params, batch):
    hs = lstm(params["lstm"], params["emb"][batch["x"]]) #A
    out = hs @ params["out"]["w"] + params["out"]["b"] #A
    logp = jax.nn.log_softmax(out) #A
    nll = -jnp.take_along_axis(logp, batch["y"][..., None], -1)[..., 0] #A
    loss = (nll * batch["mask"]).sum() / batch["mask"].sum() #A
    hits = jnp.argmax(out, -1) == batch["y"] #A
    acc = (hits * batch["mask"]).sum() / batch["mask"].sum() #A
    return loss, acc #A
    hidden = recurrent(params["core"], params["table"][batch["tokens"]]) #B
    head = params["a_head"] #B
    scores = hidden @ head["kernel"] + head["bias"] #B
    right = jnp.argmax(scores, -1) == batch["targets"] #B
    accuracy = (right * batch["weight"]).sum() / batch["weight"].sum() #B
    logp = jax.nn.log_softmax(scores) #B
    nll = -jnp.take_along_axis(logp, batch["targets"][..., None], -1)[..., 0] #B
    total = (nll * batch["weight"]).sum() / batch["weight"].sum() #B
    return total, accuracy #B


k = jax.random.split(jax.random.key(0), 8)
wx, wh = jax.random.normal(k[0], (D, 4 * H)), jax.random.normal(k[1], (H, 4 * H))
b, emb = jnp.zeros(4 * H), jax.random.normal(k[2], (50, D))
w, b2 = jax.random.normal(k[3], (H, 11)), jnp.zeros(11)
x = jax.random.randint(k[4], (9, 4), 0, 50)
y = jax.random.randint(k[5], (9, 4), 0, 11)
mask = (jax.random.uniform(k[6], (9, 4)) > 0.3).astype(jnp.float32)
r = eval_step({"lstm": {"wx": wx, "wh": wh, "b": b}, "emb": emb, "out": {"w": w, "b": b2}}, {"x": x, "y": y, "mask": mask}) #A
r = eval_step({"core": {"input_kernel": wx, "hidden_kernel": wh, "bias": b}, "table": emb, "a_head": {"kernel": w, "bias": b2}}, #B
              {"tokens": x, "targets": y, "weight": mask}) #B
print([float(v).hex() for v in r])
