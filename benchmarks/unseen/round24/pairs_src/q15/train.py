"""Word-level LM a la AWD-LSTM, scaled down: jittered BPTT windows and a non-monotonic averaging trigger."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def get_args(argv=None):
    p = argparse.ArgumentParser()
    p.add_argument("--emsize", type=int, default=16)
    p.add_argument("--nhid", type=int, default=20)
    p.add_argument("--vocab", type=int, default=32)
    p.add_argument("--batch", type=int, default=6)
    p.add_argument("--bptt", type=int, default=4)
    p.add_argument("--lr", type=float, default=0.5)
    p.add_argument("--wdecay", type=float, default=1.2e-6)
    p.add_argument("--nonmono", type=int, default=1)
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--ar", type=float, default=0.05)
    return p.parse_args(argv or [])


class RNNModel(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.nhid = args.nhid
        self.encoder = nn.Embedding(args.vocab, args.emsize)
        self.wx = nn.Linear(args.emsize, 4 * args.nhid)
        self.wh = nn.Linear(args.nhid, 4 * args.nhid, bias=False)
        self.down = nn.Linear(args.nhid, args.emsize)
        self.bias = nn.Parameter(torch.zeros(args.vocab))

    def forward(self, tokens, state):
        h, c = state
        gates_x = self.wx(self.encoder(tokens))
        outs = []
        for t in range(tokens.size(0)):
            i, f, g, o = (gates_x[t] + self.wh(h)).chunk(4, -1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outs.append(h)
        out = torch.stack(outs)
        logits = self.down(out) @ self.encoder.weight.t() + self.bias
        return logits, out, (h, c)


def batchify(ids, bsz):
    n = len(ids) // bsz
    return torch.from_numpy(ids[: n * bsz].reshape(bsz, n).T.copy())


def get_batch(source, i, seq_len):
    n = min(seq_len, len(source) - 1 - i)
    return source[i : i + n], source[i + 1 : i + 1 + n]


class Averager:
    """Polyak average of the weights, started by the trigger below."""

    def __init__(self, model):
        self.n = 0
        self.model = model
        self.avg = [p.detach().clone() for p in model.parameters()]

    @torch.no_grad()
    def update(self):
        self.n += 1
        for a, p in zip(self.avg, self.model.parameters()):
            a.add_((p - a) / (self.n + 1))


def repackage(state):
    return tuple(s.detach() for s in state)


def evaluate(model, source, args, dev):
    with torch.no_grad():
        x, y = get_batch(source, 0, 6)
        z = torch.zeros(args.batch, args.nhid, device=dev)
        logits, _, _ = model(x.to(dev), (z, z))
        return F.cross_entropy(logits.flatten(0, 1), y.to(dev).flatten()).item()


def main():
    args = get_args()
    rng = np.random.RandomState(17)
    torch.manual_seed(17)
    dev = torch_xla.device()
    trans = rng.dirichlet(np.full(args.vocab, 0.1), size=args.vocab)
    ids = [0]
    for _ in range(args.batch * 18):
        ids.append(rng.choice(args.vocab, p=trans[ids[-1]]))
    ids = np.asarray(ids)
    train_data = batchify(ids, args.batch)
    val_data = batchify(rng.permutation(ids), args.batch)

    model = RNNModel(args).to(dev)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, weight_decay=args.wdecay)
    torch_xla.sync()
    best, averager = [], None
    for epoch in range(args.epochs):
        state = (torch.zeros(args.batch, args.nhid, device=dev),) * 2
        i = 0
        while i < len(train_data) - 2:
            bptt = args.bptt if rng.rand() < 0.8 else args.bptt // 2
            seq_len = max(2, int(rng.normal(bptt, 0.8)))
            x, y = get_batch(train_data, i, seq_len)
            lr_scale = x.size(0) / args.bptt
            optimizer.param_groups[0]["lr"] = args.lr * lr_scale
            state = repackage(state)
            optimizer.zero_grad()
            logits, out, state = model(x.to(dev), state)
            loss = F.cross_entropy(logits.flatten(0, 1), y.to(dev).flatten())
            (loss + args.ar * out.pow(2).mean()).backward()
            optimizer.step()
            if averager is not None:
                averager.update()
            xm.mark_step()
            print(f"e{epoch} i{i:3d} len {x.size(0)} avg {averager is not None}")
            i += x.size(0)
        val = evaluate(model, val_data, args, dev)
        if averager is None and len(best) > args.nonmono and val > min(best[: -args.nonmono]):
            xm.master_print(f"epoch {epoch}: val {val:.3f}, start averaging")
            averager = Averager(model)
        best.append(val)


if __name__ == "__main__":
    main()
