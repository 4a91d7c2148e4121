"""Tagging of borehole logs: a window network with a linear-chain CRF on top, NLL, SGD with Nesterov momentum."""
import sys

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

CHANNELS, TAGS, LENGTH, DEVICE = 6, 5, 4, "xla"


class CRF(nn.Module):
    def __init__(self, tags):
        super().__init__()
        self.start = nn.Parameter(torch.randn(tags) * 0.1)
        self.end = nn.Parameter(torch.randn(tags) * 0.1)
        self.trans = nn.Parameter(torch.randn(tags, tags) * 0.1)    # from, to

    def score(self, emit, tags, mask):
        b, n, k = emit.shape
        idx = torch.arange(b, device=emit.device)
        s = self.start[tags[:, 0]] + emit[idx, 0, tags[:, 0]]
        for t in range(1, n):
            step = self.trans[tags[:, t - 1], tags[:, t]] + emit[idx, t, tags[:, t]]
            s = s + step * mask[:, t]
        last = mask.sum(1).long() - 1
        return s + self.end[tags[idx, last]]

    def partition(self, emit, mask):
        alpha = self.start + emit[:, 0]
        for t in range(1, emit.size(1)):
            nxt = torch.logsumexp(alpha.unsqueeze(2) + self.trans, dim=1) + emit[:, t]
            alpha = torch.where(mask[:, t].unsqueeze(1) > 0, nxt, alpha)
        return torch.logsumexp(alpha + self.end, dim=1)

    def forward(self, emit, tags, mask):
        return (self.partition(emit, mask) - self.score(emit, tags, mask)).mean()


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(CHANNELS, 8, 3, padding=1)
        self.gate = nn.Conv1d(CHANNELS, 8, 3, padding=1)
        self.emit = nn.Linear(8, TAGS)
        self.crf = CRF(TAGS)

    def forward(self, x, tags, mask):
        h = torch.tanh(self.conv(x)) * torch.sigmoid(self.gate(x))
        return self.crf(self.emit(h.transpose(1, 2)), tags, mask)


def batch(gen, n=4):
    x = torch.randn(n, CHANNELS, LENGTH, generator=gen)
    tags = torch.randint(0, TAGS, (n, LENGTH), generator=gen)
    lengths = torch.randint(2, LENGTH + 1, (n,), generator=gen)
    mask = (torch.arange(LENGTH).unsqueeze(0) < lengths.unsqueeze(1)).float()
    return [t.to(DEVICE) for t in (x, tags, mask)]


def main(path, steps=4):
    torch.manual_seed(21)
    gen = torch.Generator().manual_seed(22)
    model = Tagger().to(DEVICE)
    params = list(model.parameters())
    opt = torch.optim.SGD(params, lr=0.05, momentum=0.9, nesterov=True)
    for step in range(steps):
        b = batch(gen)
        torch_xla.sync()
        opt.zero_grad()
        loss = model(*b)
        loss.backward()
        opt.step()
        if step == 3:
            live = [loss.detach()] + params + [opt.state[p]["momentum_buffer"] for p in params]
            open(path, "w").write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, "%.7f" % loss.item(), *("%.7f" % p.detach().double().abs().sum().item() for p in params))


if __name__ == "__main__":
    main(sys.argv[1])
