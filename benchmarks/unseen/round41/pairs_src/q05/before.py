"""Linear-chain CRF tagger for log lines on conv features.

usage: before.py OUT      writes the pending graph of the third training step
"""
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, DIM, TAGS, LENGTH, BATCH = 40, 12, 5, 5, 4


class CRF(nn.Module):
    """trans[i, j] is the score of going from tag i to tag j."""

    def __init__(self, tags):
        super().__init__()
        self.start = nn.Parameter(torch.randn(tags) * 0.1)
        self.end = nn.Parameter(torch.randn(tags) * 0.1)
        self.trans = nn.Parameter(torch.randn(tags, tags) * 0.1)

    def path_score(self, emit, tags, mask):
        score = self.start[tags[:, 0]] + emit[:, 0].gather(1, tags[:, :1]).squeeze(1)
        for t in range(1, emit.shape[1]):
            here = emit[:, t].gather(1, tags[:, t : t + 1]).squeeze(1)
            move = self.trans[tags[:, t - 1], tags[:, t]]
            score = score + (here + move) * mask[:, t]
        last = mask.sum(dim=1).long() - 1
        return score + self.end[tags.gather(1, last.unsqueeze(1)).squeeze(1)]

    def log_partition(self, emit, mask):
        alpha = self.start + emit[:, 0]
        for t in range(1, emit.shape[1]):
            grid = alpha.unsqueeze(2) + self.trans + emit[:, t].unsqueeze(1)
            nxt = torch.logsumexp(grid, dim=1)
            keep = mask[:, t].unsqueeze(1)
            alpha = nxt * keep + alpha * (1 - keep)
        return torch.logsumexp(alpha + self.end, dim=1)

    def forward(self, emit, tags, mask):
        return self.log_partition(emit, mask) - self.path_score(emit, tags, mask)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.conv = nn.Conv1d(DIM, DIM, 3, padding=1)
        self.out = nn.Linear(DIM, TAGS)
        self.crf = CRF(TAGS)

    def forward(self, tokens, tags, mask):
        x = self.embed(tokens)
        h = F.gelu(self.conv(x.transpose(1, 2)).transpose(1, 2)) + x
        return self.crf(self.out(h), tags, mask)


def main(out):
    torch.manual_seed(8)
    device = xm.xla_device()
    net = Tagger().to(device)
    params = list(net.parameters())
    opt = torch.optim.Adagrad(params, lr=0.05)
    for step in range(3):
        tokens = torch.randint(VOCAB, (BATCH, LENGTH)).to(device)
        tags = torch.randint(TAGS, (BATCH, LENGTH)).to(device)
        length = torch.randint(3, LENGTH + 1, (BATCH, 1))
        mask = (torch.arange(LENGTH)[None] < length).float().to(device)
        torch_xla.sync()

        nll = net(tokens, tags, mask)
        loss = (nll / mask.sum(dim=1)).mean()
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)

        if step == 2:
            live = [loss.detach()] + [p.detach() for p in params]
            live += [opt.state[p]["sum"] for p in params]
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
