"""Character LM with truncated backprop through time over a contiguous stream."""
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

cfg = {
    "vocab": 28,
    "emb": 12,
    "hidden": 16,
    "bptt": 4,
    "streams": 5,
    "chunks": 3,
    "epochs": 2,
    "carry": None,
    "lr": 0.02,
    "clip": 0.25,
    "tar_beta": 1.0,
}


class LSTMCellStack(nn.Module):
    def __init__(self, nin, nhid, layers=2):
        super().__init__()
        sizes = [nin] + [nhid] * layers
        self.wx = nn.ModuleList([nn.Linear(sizes[i], 4 * nhid) for i in range(layers)])
        self.wh = nn.ModuleList([nn.Linear(nhid, 4 * nhid, bias=False) for _ in range(layers)])
        self.nhid = nhid

    def initial(self, batch, like):
        return [(like.new_zeros(batch, self.nhid), like.new_zeros(batch, self.nhid)) for _ in self.wx]

    def forward(self, xs, state=None):
        if state is None:
            state = self.initial(xs.size(1), xs)
        state = list(state)
        outs = []
        for x in xs.unbind(0):
            for l in range(len(self.wx)):
                h, c = state[l]
                i, f, g, o = (self.wx[l](x) + self.wh[l](h)).chunk(4, dim=-1)
                c = torch.sigmoid(f + 1.0) * c + torch.sigmoid(i) * torch.tanh(g)
                h = torch.sigmoid(o) * torch.tanh(c)
                state[l] = (h, c)
                x = h
            outs.append(x)
        return torch.stack(outs), state


class CharLM(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.emb = nn.Embedding(c["vocab"], c["emb"])
        self.rnn = LSTMCellStack(c["emb"], c["hidden"])
        self.dec = nn.Linear(c["hidden"], c["vocab"])

    def forward(self, tokens, state):
        out, state = self.rnn(self.emb(tokens), state)
        return self.dec(out), out, state


def repackage(state):
    return [(h.detach(), c.detach()) for h, c in state]


def resume_carry(path, c, layers=2):
    """Carry saved with the checkpoint, so that a restarted job goes on mid-stream."""
    if path is not None and os.path.exists(path):
        return torch.load(path)
    shape = (c["streams"], c["hidden"])
    return [(torch.zeros(shape), torch.zeros(shape)) for _ in range(layers)]


def batchify(n_streams, length, vocab):
    g = torch.Generator().manual_seed(99)
    return torch.randint(0, vocab, (length, n_streams), generator=g)


def run():
    torch.manual_seed(99)
    device = torch_xla.device()
    model = CharLM(cfg).to(device)
    params = list(model.parameters())
    stream = batchify(cfg["streams"], cfg["bptt"] * cfg["chunks"] + 1, cfg["vocab"])
    state = [(h.to(device), c.to(device)) for h, c in resume_carry(cfg["carry"], cfg)]
    torch_xla.sync()

    for epoch in range(cfg["epochs"]):
        for n in range(cfg["chunks"]):
            lo = n * cfg["bptt"]
            x = stream[lo:lo + cfg["bptt"]].to(device)
            y = stream[lo + 1:lo + 1 + cfg["bptt"]].to(device)
            logits, raw, state = model(x, state)
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
            loss = loss + cfg["tar_beta"] * (raw[1:] - raw[:-1]).pow(2).mean()
            grads = torch.autograd.grad(loss, params)
            norm = torch.sqrt(sum(g.pow(2).sum() for g in grads))
            scale = torch.clamp(cfg["clip"] / (norm + 1e-6), max=1.0)
            with torch.no_grad():
                for p, g in zip(params, grads):
                    p.sub_(cfg["lr"] * scale * g)
            state = repackage(state)
            torch_xla.sync()
            print(f"epoch {epoch} chunk {n}: loss {loss.item():.3f} |g| {norm.item():.3f}")
        state = None


if __name__ == "__main__":
    run()
