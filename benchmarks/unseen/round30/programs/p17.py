"""Character-level language model, truncated BPTT over a contiguous stream."""
import math

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


class Config:
    vocab = 40
    emb = 24
    hid = 32
    bptt = 8
    batch_size = 8
    tokens = 1290
    epochs = 1
    lr = 0.5
    clip = 0.25
    log_interval = 4


class CharLM(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.emb = nn.Embedding(c.vocab, c.emb)
        self.ih = nn.Linear(c.emb, c.hid)
        self.hh = nn.Linear(c.hid, c.hid, bias=False)
        self.dec = nn.Linear(c.hid, c.vocab)
        self.drop = nn.Dropout(0.1)
        self.hid = c.hid

    def init_hidden(self, bsz, device):
        return torch.zeros(bsz, self.hid, device=device)

    def forward(self, tokens, h):
        inp = self.ih(self.drop(self.emb(tokens)))
        outs = []
        for x in inp.unbind(0):
            h = torch.tanh(x + self.hh(h))
            outs.append(h)
        return self.dec(self.drop(torch.stack(outs))), h


def synth_corpus(c, seed=0):
    g = torch.Generator().manual_seed(seed)
    trans = torch.randn(c.vocab, c.vocab, generator=g).mul(2).softmax(-1)
    ids = [0]
    for _ in range(c.tokens - 1):
        ids.append(int(torch.multinomial(trans[ids[-1]], 1, generator=g)))
    return torch.tensor(ids)


def batchify(data, bsz, device):
    nbatch = data.size(0) // bsz
    data = data.narrow(0, 0, nbatch * bsz)
    return data.view(bsz, -1).t().contiguous().to(device)


def get_batch(source, i, bptt):
    seq_len = min(bptt, len(source) - 1 - i)
    data = source[i:i + seq_len]
    target = source[i + 1:i + 1 + seq_len].reshape(-1)
    return data, target


class LossMeter:
    def __init__(self):
        self.history = []

    def update(self, loss):
        self.history.append(loss.detach())

    def ppl(self):
        return torch.exp(torch.stack(self.history).mean())


def train(c):
    torch.manual_seed(2)
    device = xm.xla_device()
    stream = batchify(synth_corpus(c), c.batch_size, device)
    model = CharLM(c).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=c.lr)
    crit = nn.CrossEntropyLoss()
    meter = LossMeter()
    xm.mark_step()
    for epoch in range(c.epochs):
        hidden = model.init_hidden(c.batch_size, device)
        n_steps = (stream.size(0) - 1) // c.bptt
        for b in range(n_steps):
            data, target = get_batch(stream, b * c.bptt, c.bptt)
            out, hidden = model(data, hidden.detach())
            loss = crit(out.view(-1, c.vocab), target)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), c.clip)
            opt.step()
            meter.update(loss)
            xm.mark_step()
            if (b + 1) % c.log_interval == 0:
                ppl = meter.ppl()
                xm.mark_step()
                print(f"| epoch {epoch} | {b + 1:3d}/{n_steps} | avg ppl {ppl.item():8.2f} |")


if __name__ == "__main__":
    train(Config)
