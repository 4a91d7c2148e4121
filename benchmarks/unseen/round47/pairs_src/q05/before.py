"""Linear-chain CRF on lithology logs of boreholes (depth samples -> rock type). torch_xla."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

T, CURVES, HID, TAGS, BATCH = 4, 4, 16, 5, 6


class CRFTagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(CURVES, HID, 3, padding=1)
        self.norm = nn.LayerNorm(HID)
        self.emit = nn.Linear(HID, TAGS)
        self.trans = nn.Parameter(0.1 * torch.randn(TAGS, TAGS))     # [from, to]
        self.start = nn.Parameter(torch.zeros(TAGS))
        self.end = nn.Parameter(torch.zeros(TAGS))

    def emissions(self, logs):
        h = F.gelu(self.conv(logs.transpose(1, 2)).transpose(1, 2))
        return self.emit(self.norm(h))

    def log_z(self, em, mask):
        alpha = self.start + em[:, 0]
        for t in range(1, T):
            s = alpha.unsqueeze(2) + self.trans.unsqueeze(0) + em[:, t].unsqueeze(1)
            new = torch.logsumexp(s, dim=1)
            alpha = torch.where(mask[:, t].unsqueeze(1), new, alpha)
        return torch.logsumexp(alpha + self.end, dim=1)

    def gold(self, em, tags, mask):
        b = torch.arange(em.shape[0], device=em.device)
        score = self.start[tags[:, 0]] + em[b, 0, tags[:, 0]]
        for t in range(1, T):
            step = self.trans[tags[:, t - 1], tags[:, t]] + em[b, t, tags[:, t]]
            score = score + step * mask[:, t]
        last = mask.sum(1) - 1
        return score + self.end[tags[b, last]]

    def forward(self, logs, tags, mask):
        em = self.emissions(logs)
        return (self.log_z(em, mask) - self.gold(em, tags, mask)).mean()


def train_step(model, opt, logs, tags, mask):
    opt.zero_grad()
    loss = model(logs, tags, mask)
    loss.backward()
    opt.step()
    return loss.detach()


def make_batch(gen, dev):
    logs = torch.randn(BATCH, T, CURVES, generator=gen)
    tags = torch.randint(0, TAGS, (BATCH, T), generator=gen)
    n = torch.randint(2, T + 1, (BATCH,), generator=gen)
    mask = torch.arange(T)[None] < n[:, None]
    return logs.to(dev), tags.to(dev), mask.to(dev)


def live(model, opt):
    ps = list(model.parameters())
    return ps + [p.grad for p in ps] + [opt.state[p]["momentum_buffer"] for p in ps]


def main(path, steps=4):
    torch.manual_seed(8)
    dev = torch_xla.device()
    model = CRFTagger().to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    torch_xla.sync()
    gen = torch.Generator().manual_seed(6)
    for step in range(steps):
        loss = train_step(model, opt, *make_batch(gen, dev))
        if step == 3:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt) + [loss]))
        torch_xla.sync()
        print(step, round(loss.item(), 6))
    return model


if __name__ == "__main__":
    main(sys.argv[1])
