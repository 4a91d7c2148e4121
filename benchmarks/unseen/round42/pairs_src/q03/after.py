"""CRF on top of a small convolutional encoder: ECG beat segmentation, trained with SGD."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

TAGS, T, B, CH = 3, 3, 5, 2


class Encoder(nn.Module):
    def __init__(self, hidden=12):
        super().__init__()
        self.conv1 = nn.Conv1d(CH, hidden, 3, padding=1)
        self.conv2 = nn.Conv1d(hidden, hidden, 3, padding=1)
        self.norm = nn.GroupNorm(3, hidden)
        self.out = nn.Linear(hidden, TAGS)

    def forward(self, x):
        h = F.relu(self.conv1(x))
        h = h + F.relu(self.norm(self.conv2(h)))
        return self.out(h.transpose(1, 2))


class CRF(nn.Module):
    def __init__(self):
        super().__init__()
        # trans[i, j]: score of moving from tag i to tag j
        self.trans = nn.Parameter(torch.randn(TAGS, TAGS) * 0.1)
        self.start = nn.Parameter(torch.randn(TAGS) * 0.1)
        self.end = nn.Parameter(torch.randn(TAGS) * 0.1)

    def log_partition(self, emit):
        alpha = self.start + emit[:, 0]
        for t in range(1, T):
            # [B, from, 1] + [from, to] -> logsumexp over "from"
            alpha = torch.logsumexp(alpha.unsqueeze(2) + self.trans, dim=1) + emit[:, t]
        return torch.logsumexp(alpha + self.end, dim=1)

    def path_score(self, emit, tags):
        score = emit.gather(2, tags.unsqueeze(2)).squeeze(2).sum(dim=1)
        score = score + self.trans[tags[:, :-1], tags[:, 1:]].sum(dim=1)
        return score + self.start[tags[:, 0]] + self.end[tags[:, -1]]

    def forward(self, emit, tags):
        return (self.log_partition(emit) - self.path_score(emit, tags)).mean()


def main():
    torch.manual_seed(3)
    dev = torch_xla.device()
    enc, crf = Encoder(), CRF()
    enc, crf = enc.to(dev), crf.to(dev)
    params = list(enc.parameters()) + list(crf.parameters())
    opt = torch.optim.SGD(params, lr=0.05, momentum=0.9, weight_decay=1e-4, foreach=False)

    for it in range(5):
        x = torch.randn(B, CH, T).to(dev)
        tags = torch.randint(0, TAGS, (B, T)).to(dev)

        opt.zero_grad(set_to_none=True)
        loss = crf(enc(x), tags)
        loss.backward()
        opt.step()

        if it == 2:
            live = [loss] + params + [opt.state[p]["momentum_buffer"] for p in params]
            open(sys.argv[1], "w").write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(it, "%.7f" % loss.item(), "%.7f" % sum(p.double().pow(2).sum().item() for p in params))


main()
