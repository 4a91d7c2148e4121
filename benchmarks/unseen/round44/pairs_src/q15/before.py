"""Linear-chain CRF over a conv encoder for protein secondary structure; two micro-batches per update.

usage: before.py OUT.hlo
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_AA, N_STATE, DIM, LEN, MICRO, ACCUM = 21, 3, 6, 4, 3, 2
MAX_NORM = 0.5


class CRF(nn.Module):
    def __init__(self):
        super().__init__()
        self.trans = nn.Parameter(0.1 * torch.randn(N_STATE, N_STATE))
        self.start = nn.Parameter(torch.zeros(N_STATE))

    def score(self, emit, tags):
        s = emit.gather(2, tags.unsqueeze(-1)).squeeze(-1).sum(1)
        s = s + self.start[tags[:, 0]]
        pair = tags[:, :-1] * N_STATE + tags[:, 1:]
        return s + self.trans.reshape(-1)[pair].sum(1)

    def log_z(self, emit):
        alpha = self.start + emit[:, 0]
        for t in range(1, emit.size(1)):
            alpha = torch.logsumexp(alpha.unsqueeze(2) + self.trans, dim=1) + emit[:, t]
        return torch.logsumexp(alpha, dim=1)

    def forward(self, emit, tags):
        return (self.log_z(emit) - self.score(emit, tags)).mean()


class Labeller(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(N_AA, DIM)
        self.conv = nn.Conv1d(DIM, DIM, 3, padding=1, bias=False)
        self.out = nn.Linear(DIM, N_STATE)
        self.crf = CRF()

    def forward(self, seq, tags):
        h = self.embed(seq).transpose(1, 2)
        h = F.relu(self.conv(h)).transpose(1, 2)
        return self.crf(self.out(h), tags)


def apply_update(model, opt):
    params = [p for p in model.parameters() if p.grad is not None]
    for p in params:
        p.grad.div_(ACCUM)
    norm = nn.utils.clip_grad_norm_(params, MAX_NORM)
    opt.step()
    return norm


def live_tensors(model, opt, extra):
    out = list(extra)
    for p in model.parameters():
        out += [p, p.grad, opt.state[p]["momentum_buffer"]]
    return out


def main(path, steps=3):
    torch.manual_seed(17)
    dev = torch_xla.device()
    model = Labeller().to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    g = torch.Generator().manual_seed(6)
    for step in range(steps):
        opt.zero_grad()
        total = 0.0
        for _ in range(ACCUM):
            seq = torch.randint(0, N_AA, (MICRO, LEN), generator=g).to(dev)
            tags = torch.randint(0, N_STATE, (MICRO, LEN), generator=g).to(dev)
            loss = model(seq, tags)
            loss.backward()
            total = total + loss.detach()
        norm = apply_update(model, opt)
        if step == steps - 1:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(model, opt, [total, norm]))
            with open(path, "w") as f:
                f.write(text)
        torch_xla.sync()
        print(step, total.item(), norm.item())


if __name__ == "__main__":
    main(sys.argv[1])
