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
        unary = em.gather(2, tags.unsqueeze(-1)).squeeze(-1)
        pair = self.trans[tags[:, :-1], tags[:, 1:]]
        last_tag = tags.gather(1, mask.sum(1, keepdim=True).long() - 1).squeeze(1)
        return (self.start[tags[:, 0]] + (unary * mask).sum(1)
                + (pair * mask[:, 1:]).sum(1) + self.end[last_tag])

    def log_z(self, em, mask):
        valid = mask > 0
        first, *rest = em.unbind(1)
        alpha = self.start + first
        for t, e in enumerate(rest, start=1):
            # the emission does not depend on the previous tag: add it after the reduction
            nxt = torch.logsumexp(alpha.unsqueeze(2) + self.trans, dim=1) + e
            alpha = torch.where(valid[:, t, None], nxt, alpha)
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
