"""Linear-chain CRF on top of a small gated convolution tagger (chord labelling of melodies)."""
import sys

import torch
import torch.nn as nn
import torch_xla

B, T, K, F_IN, HID = 3, 5, 4, 7, 10


class GatedTagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.value = nn.Linear(F_IN, HID)
        self.gate = nn.Linear(F_IN, HID)
        self.out = nn.Linear(HID, K)

    def forward(self, x):
        return self.out(self.value(x) * torch.sigmoid(self.gate(x)))


class CRF(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.start = nn.Parameter(torch.randn(k) * 0.1)
        self.end = nn.Parameter(torch.randn(k) * 0.1)
        self.trans = nn.Parameter(torch.randn(k, k) * 0.1)   # [from, to]

    def score(self, em, tags, mask):
        # em [B,T,K], tags [B,T], mask [B,T] (float, first column all ones)
        s = self.start[tags[:, 0]] + em[:, 0].gather(1, tags[:, :1]).squeeze(1)
        for t in range(1, em.shape[1]):
            step = self.trans[tags[:, t - 1], tags[:, t]]
            step = step + em[:, t].gather(1, tags[:, t:t + 1]).squeeze(1)
            s = s + step * mask[:, t]
        last = mask.sum(1).long() - 1
        last_tag = tags.gather(1, last.unsqueeze(1)).squeeze(1)
        return s + self.end[last_tag]

    def log_z(self, em, mask):
        alpha = self.start.unsqueeze(0) + em[:, 0]
        for t in range(1, em.shape[1]):
            m = mask[:, t].unsqueeze(1)
            nxt = alpha.unsqueeze(2) + self.trans.unsqueeze(0) + em[:, t].unsqueeze(1)
            nxt = torch.logsumexp(nxt, dim=1)
            alpha = m * nxt + (1.0 - m) * alpha
        return torch.logsumexp(alpha + self.end, dim=1)

    def forward(self, em, tags, mask):
        return (self.log_z(em, mask) - self.score(em, tags, mask)).mean()


def batch(gen, dev):
    x = torch.randn(B, T, F_IN, generator=gen)
    tags = torch.randint(0, K, (B, T), generator=gen)
    lens = torch.randint(2, T + 1, (B,), generator=gen)
    mask = (torch.arange(T)[None] < lens[:, None]).float()
    return x.to(dev), tags.to(dev), mask.to(dev)


def pending(loss, params, opt):
    out = [loss.detach()]
    for p in params:
        out += [p, p.grad, opt.state[p]["sum"]]
    return out


def main(path, steps=4):
    dev = torch_xla.device()
    torch.manual_seed(21)
    gen = torch.Generator().manual_seed(22)
    tagger, crf = GatedTagger().to(dev), CRF(K).to(dev)
    params = list(tagger.parameters()) + list(crf.parameters())
    opt = torch.optim.Adagrad(params, lr=0.05, foreach=False)
    torch_xla.sync()
    for i in range(steps):
        x, tags, mask = batch(gen, dev)
        opt.zero_grad()
        loss = crf(tagger(x), tags, mask)
        loss.backward()
        opt.step()
        if i == 2:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(pending(loss, params, opt)))
        torch_xla.sync()
        print(i, loss.item(), sum(p.double().sum().item() for p in params))


if __name__ == "__main__":
    main(sys.argv[1])
