"""Character-level Elman RNN language model on one long stream, trained by truncated
backpropagation with plain SGD (after the classic word-language-model example)."""
import argparse
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

parser = argparse.ArgumentParser()
parser.add_argument("--emsize", type=int, default=12)
parser.add_argument("--nhid", type=int, default=24)
parser.add_argument("--bptt", type=int, default=4)
parser.add_argument("--batch_size", type=int, default=8)
parser.add_argument("--lr", type=float, default=0.5)
parser.add_argument("--clip", type=float, default=0.5)
parser.add_argument("--log-interval", type=int, default=5)
parser.add_argument("--seed", type=int, default=1111)


class Corpus:
    """A first-order Markov source standing in for text."""

    def __init__(self, ntoken=24, train=8 * 81, valid=8 * 21, seed=0):
        self.ntoken = ntoken
        g = torch.Generator().manual_seed(seed)
        self.table = torch.softmax(3.0 * torch.randn(ntoken, ntoken, generator=g), dim=1)
        self.train, self.valid = self._draw(train, g), self._draw(valid, g)

    def _draw(self, n, g):
        out = torch.zeros(n, dtype=torch.long)
        for i in range(1, n):
            out[i] = torch.multinomial(self.table[out[i - 1]], 1, generator=g)
        return out


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    return data[:nbatch * bsz].view(bsz, -1).t().contiguous()


def get_batch(source, i, bptt, device):
    data = source[i:i + bptt]
    target = source[i + 1:i + 1 + bptt].reshape(-1)
    return data.to(device), target.to(device)


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp, nhid):
        super().__init__()
        self.encoder = nn.Embedding(ntoken, ninp)
        self.cell = nn.RNNCell(ninp, nhid)
        self.decoder = nn.Linear(nhid, ntoken)
        self.nhid = nhid
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)

    def forward(self, tokens, hidden):
        outputs = []
        for emb in self.encoder(tokens).unbind(0):
            hidden = self.cell(emb, hidden)
            outputs.append(hidden)
        return self.decoder(torch.stack(outputs)).flatten(0, 1), hidden

    def init_hidden(self, bsz, device):
        return torch.zeros(bsz, self.nhid).to(device)


def evaluate(model, source, args, device):
    model.eval()
    hidden = model.init_hidden(source.size(1), device)
    losses = []
    with torch.no_grad():
        for i in range(0, source.size(0) - 1 - args.bptt + 1, args.bptt):
            data, target = get_batch(source, i, args.bptt, device)
            logits, hidden = model(data, hidden)
            losses.append(F.cross_entropy(logits, target))
            xm.mark_step()
    return sum(l.item() for l in losses) / len(losses)


def train_epoch(model, source, args, device):
    model.train()
    hidden = model.init_hidden(source.size(1), device)
    recent, start = [], time.time()
    starts = range(0, source.size(0) - 1 - args.bptt + 1, args.bptt)
    for batch, i in enumerate(starts):
        data, target = get_batch(source, i, args.bptt, device)
        model.zero_grad()
        logits, hidden = model(data, hidden)
        loss = F.cross_entropy(logits, target)
        loss.backward(retain_graph=True)
        nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-args.lr)
        recent.append(loss.detach())
        xm.mark_step()

        if (batch + 1) % args.log_interval == 0:
            cur = sum(l.item() for l in recent) / len(recent)
            ms = (time.time() - start) * 1000 / args.log_interval
            print(f"| {batch + 1:3d}/{len(starts)} batches | ms/batch {ms:7.1f} "
                  f"| loss {cur:5.2f} | ppl {math.exp(cur):7.2f}")
            recent, start = [], time.time()


def main():
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    device = torch_xla.device()
    corpus = Corpus()
    train = batchify(corpus.train, args.batch_size)
    valid = batchify(corpus.valid, args.batch_size)
    model = RNNModel(corpus.ntoken, args.emsize, args.nhid).to(device)
    xm.mark_step()
    train_epoch(model, train, args, device)
    print(f"valid loss {evaluate(model, valid, args, device):.3f}")


if __name__ == "__main__":
    main()
