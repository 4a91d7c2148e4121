"""Word-level language model in the manner of AWD-LSTM."""
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class LockedDropout(nn.Module):
    def forward(self, x, p):
        if not self.training or p == 0:
            return x
        mask = x.new_empty(1, x.size(1), x.size(2)).bernoulli_(1 - p) / (1 - p)
        return x * mask


class GRUCellStack(nn.Module):
    def __init__(self, n_in, n_hid):
        super().__init__()
        self.cell = nn.GRUCell(n_in, n_hid)

    def forward(self, x, h):
        outs = []
        for t in range(x.size(0)):
            h = self.cell(x[t], h)
            outs.append(h)
        return torch.stack(outs), h


class RNNModel(nn.Module):
    def __init__(self, ntoken=50, ninp=16, nhid=16, nlayers=2, dropout=0.2):
        super().__init__()
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnns = nn.ModuleList([GRUCellStack(ninp if l == 0 else nhid, nhid) for l in range(nlayers)])
        self.lockdrop = LockedDropout()
        self.decoder = nn.Linear(nhid, ntoken)
        self.decoder.weight = self.encoder.weight
        self.nhid, self.nlayers, self.dropout = nhid, nlayers, dropout

    def init_hidden(self, bsz, device):
        return [torch.zeros(bsz, self.nhid).to(device) for _ in range(self.nlayers)]

    def forward(self, ids, hidden):
        x = self.lockdrop(self.encoder(ids), self.dropout)
        new_hidden = []
        for rnn, h in zip(self.rnns, hidden):
            x, h = rnn(x, h)
            x = self.lockdrop(x, self.dropout)
            new_hidden.append(h)
        return self.decoder(x), new_hidden


def repackage_hidden(h):
    return [x.detach() for x in h]


def batchify(tokens, bsz):
    n = tokens.size(0) // bsz
    return tokens[:n * bsz].view(bsz, n).t().contiguous()


def get_batch(source, i, bptt, seq_len=None):
    seq_len = min(seq_len or bptt, len(source) - 1 - i)
    return source[i:i + seq_len], source[i + 1:i + 1 + seq_len].reshape(-1)


def corpus(n, vocab=50):
    toks = [1]
    for _ in range(n - 1):
        toks.append((toks[-1] * 3 + random.choice((1, 1, 1, 7))) % vocab)
    return torch.tensor(toks)


def train_epoch(model, data, optimizer, device, args):
    model.train()
    hidden = model.init_hidden(data.size(1), device)
    history = []
    batch, i = 0, 0
    while i < data.size(0) - 1 - args["bptt"] - 4:
        bptt = args["bptt"] if random.random() < 0.95 else args["bptt"] / 2
        seq_len = max(4, int(random.gauss(bptt, args["bptt_std"])))
        base_lr = optimizer.param_groups[0]["lr"]
        optimizer.param_groups[0]["lr"] = base_lr * seq_len / args["bptt"]
        ids, targets = get_batch(data, i, args["bptt"], seq_len=seq_len)
        ids, targets = ids.to(device), targets.to(device)

        hidden = repackage_hidden(hidden)
        optimizer.zero_grad()
        logits, hidden = model(ids, hidden)
        loss = F.cross_entropy(logits.reshape(-1, logits.size(-1)), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), args["clip"])
        optimizer.step()
        xm.mark_step()

        history.append(loss.detach())
        optimizer.param_groups[0]["lr"] = base_lr
        batch += 1
        i += seq_len
        if batch % args["log_interval"] == 0:
            cur = torch.stack(history).mean().item()
            print(f"| batch {batch:3d} | pos {i:4d} | loss {cur:5.3f} | ppl {math.exp(cur):8.2f}")


def main():
    args = dict(bptt=8, bptt_std=1.2, clip=0.25, log_interval=4, bsz=8, lr=0.5)
    random.seed(1)
    torch.manual_seed(1)
    device = torch_xla.device()
    data = batchify(corpus(8 * 200), args["bsz"])
    model = RNNModel().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args["lr"], weight_decay=1e-6)
    train_epoch(model, data, optimizer, device, args)


if __name__ == "__main__":
    main()
