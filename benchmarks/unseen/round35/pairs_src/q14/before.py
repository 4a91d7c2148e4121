"""Linear chain CRF on a small conv encoder: secondary structure from
protein sequence (8 states)."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

AMINO = 21
STATES = 8
LENGTH = 4
BATCH = 4
DIM = 12


def log_sum_exp(x, dim):
    m, _ = x.max(dim=dim, keepdim=True)
    return m.squeeze(dim) + torch.log(torch.exp(x - m).sum(dim=dim))


class CRF(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n
        self.start = nn.Parameter(torch.randn(n) * 0.1)
        self.end = nn.Parameter(torch.randn(n) * 0.1)
        self.trans = nn.Parameter(torch.randn(n, n) * 0.1)

    def partition(self, em, mask):
        alpha = self.start + em[:, 0]
        for t in range(1, em.shape[1]):
            scores = alpha.unsqueeze(2) + self.trans.unsqueeze(0) + em[:, t].unsqueeze(1)
            new = log_sum_exp(scores, 1)
            keep = mask[:, t].unsqueeze(1)
            alpha = keep * new + (1.0 - keep) * alpha
        return log_sum_exp(alpha + self.end, 1)

    def gold(self, em, tags, mask):
        score = self.start[tags[:, 0]] + em[:, 0].gather(1, tags[:, :1]).squeeze(1)
        for t in range(1, em.shape[1]):
            step = self.trans[tags[:, t - 1], tags[:, t]]
            step = step + em[:, t].gather(1, tags[:, t:t + 1]).squeeze(1)
            score = score + step * mask[:, t]
        last = mask.sum(dim=1).long() - 1
        last_tag = tags.gather(1, last.unsqueeze(1)).squeeze(1)
        return score + self.end[last_tag]

    def forward(self, em, tags, mask):
        return self.partition(em, mask) - self.gold(em, tags, mask)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(AMINO, DIM)
        self.conv1 = nn.Conv1d(DIM, DIM, 3, padding=1)
        self.proj = nn.Linear(DIM, STATES)
        self.crf = CRF(STATES)

    def forward(self, seq, tags, mask):
        h = self.embed(seq).transpose(1, 2)
        h = h + F.gelu(self.conv1(h))
        em = self.proj(h.transpose(1, 2))
        return self.crf(em, tags, mask)


def live(model, opt, extra):
    out = list(model.parameters())
    out += [opt.state[p]["momentum_buffer"] for p in model.parameters()]
    return out + extra


def main(path=None, dump_at=2, steps=3):
    torch.manual_seed(2)
    device = torch_xla.device()
    model = Tagger().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    g = torch.Generator().manual_seed(4)
    losses = []
    for step in range(steps):
        seq = torch.randint(0, AMINO, (BATCH, LENGTH), generator=g).to(device)
        tags = torch.randint(0, STATES, (BATCH, LENGTH), generator=g).to(device)
        length = torch.randint(2, LENGTH + 1, (BATCH, 1), generator=g)
        mask = (torch.arange(LENGTH).unsqueeze(0) < length).float().to(device)
        loss = model(seq, tags, mask).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0, foreach=False)
        opt.step()
        opt.zero_grad(set_to_none=True)
        if path and step == dump_at:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, [loss])))
        torch_xla.sync()
        losses.append(loss.item())
    return losses, [p.detach().cpu() for p in model.parameters()]


if __name__ == "__main__":
    print(main(sys.argv[1] if len(sys.argv) > 1 else None)[0])
