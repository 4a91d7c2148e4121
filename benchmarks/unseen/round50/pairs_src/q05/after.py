"""Linear-chain CRF over a gated convolution: nanopore current -> base labels.

usage: python after.py OUT.hlo
"""
import sys

import torch
import torch.nn as nn
import torch_xla

BATCH, EVENTS, FEATS, HID, TAGS = 4, 5, 3, 8, 6
DUMP_STEP = 2


class CRF(nn.Module):
    def __init__(self, tags):
        super().__init__()
        # trans[i, j]: score of going from tag i to tag j
        self.trans = nn.Parameter(torch.randn(tags, tags) * 0.1)
        self.start = nn.Parameter(torch.zeros(tags))
        self.stop = nn.Parameter(torch.zeros(tags))

    def path_score(self, emit, tags, mask):
        score = self.start[tags[:, 0]] + emit[:, 0].gather(1, tags[:, :1]).squeeze(1)
        for t in range(1, emit.size(1)):
            step = self.trans[tags[:, t - 1], tags[:, t]]
            step = step + emit[:, t].gather(1, tags[:, t:t + 1]).squeeze(1)
            score = score + step * mask[:, t]
        last = tags.gather(1, mask.sum(1, keepdim=True).long() - 1).squeeze(1)
        return score + self.stop[last]

    def log_partition(self, emit, mask):
        alpha = self.start + emit[:, 0]
        for t in range(1, emit.size(1)):
            inner = alpha.unsqueeze(1) + self.trans + emit[:, t].unsqueeze(2)
            nxt = torch.logsumexp(inner, dim=2)
            keep = mask[:, t].unsqueeze(1)
            alpha = keep * nxt + (1.0 - keep) * alpha
        return torch.logsumexp(alpha + self.stop, dim=1)

    def forward(self, emit, tags, mask):
        return self.log_partition(emit, mask) - self.path_score(emit, tags, mask)


class BaseCaller(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(FEATS, HID)
        self.conv = nn.Conv1d(HID, 2 * HID, 3, padding=1)
        self.emit = nn.Linear(HID, TAGS)
        self.crf = CRF(TAGS)

    def encode(self, x):
        x = torch.relu(self.inp(x))
        a, g = self.conv(x.transpose(1, 2)).transpose(1, 2).chunk(2, dim=-1)
        return self.emit(x + torch.tanh(a) * torch.sigmoid(g))

    def forward(self, x, tags, mask):
        return self.crf(self.encode(x), tags, mask)


def batch(gen, device):
    x = torch.randn(BATCH, EVENTS, FEATS, generator=gen)
    tags = torch.randint(0, TAGS, (BATCH, EVENTS), generator=gen)
    length = torch.randint(3, EVENTS + 1, (BATCH, 1), generator=gen)
    mask = (torch.arange(EVENTS).unsqueeze(0) < length).float()
    return x.to(device), tags.to(device), mask.to(device)


def main(path):
    device = torch_xla.device()
    torch.manual_seed(41)
    model = BaseCaller().to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    for state in opt.state.values():
        state["sum"] = state["sum"].to(device)
    gen = torch.Generator().manual_seed(9)
    torch_xla.sync()
    for step in range(4):
        x, tags, mask = batch(gen, device)
        opt.zero_grad()
        nll = model(x, tags, mask)
        loss = nll.sum() / mask.sum()
        loss.backward()
        opt.step()
        if step == DUMP_STEP:
            pend = [loss, nll]
            for p in model.parameters():
                pend += [p, p.grad, opt.state[p]["sum"]]
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(pend))
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
