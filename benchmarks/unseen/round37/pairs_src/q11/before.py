"""De-identification of discharge letters: dilated CNN encoder with a linear-chain CRF on top."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, TAGS, DIM, LEN, BATCH = 60, 5, 16, 4, 4


class DilatedBlock(nn.Module):

    def __init__(self, dim, dilation):
        super().__init__()
        self.conv = nn.Conv1d(dim, dim, 3, padding=dilation, dilation=dilation)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        y = self.conv(x.transpose(1, 2)).transpose(1, 2)
        return x + F.relu(self.norm(y))


class LinearChainCRF(nn.Module):

    def __init__(self, num_tags):
        super().__init__()
        self.start = nn.Parameter(torch.empty(num_tags).uniform_(-0.1, 0.1))
        self.end = nn.Parameter(torch.empty(num_tags).uniform_(-0.1, 0.1))
        # transitions[i, j]: score of going from tag i to tag j
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags).uniform_(-0.1, 0.1))

    def _path_score(self, emissions, tags, mask):
        score = self.start[tags[:, 0]]
        score = score + emissions[:, 0].gather(1, tags[:, :1]).squeeze(1)
        for t in range(1, emissions.size(1)):
            prev, cur = tags[:, t - 1], tags[:, t]
            step = self.transitions[prev, cur]
            step = step + emissions[:, t].gather(1, cur.unsqueeze(1)).squeeze(1)
            score = score + step * mask[:, t]
        last = mask.long().sum(1) - 1
        last_tags = tags.gather(1, last.unsqueeze(1)).squeeze(1)
        return score + self.end[last_tags]

    def _log_partition(self, emissions, mask):
        alpha = self.start + emissions[:, 0]
        for t in range(1, emissions.size(1)):
            scores = alpha.unsqueeze(2) + self.transitions + emissions[:, t].unsqueeze(1)
            nxt = torch.logsumexp(scores, dim=1)
            alpha = torch.where(mask[:, t].unsqueeze(1) > 0, nxt, alpha)
        return torch.logsumexp(alpha + self.end, dim=1)

    def forward(self, emissions, tags, mask):
        return self._log_partition(emissions, mask) - self._path_score(emissions, tags, mask)


class Tagger(nn.Module):

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.block = DilatedBlock(DIM, 2)
        self.project = nn.Linear(DIM, TAGS)
        self.crf = LinearChainCRF(TAGS)

    def forward(self, tokens, tags, mask):
        x = self.embed(tokens)
        x = self.block(x)
        nll = self.crf(self.project(x), tags, mask)
        return nll.sum() / mask.sum()


def batch(gen, device):
    tokens = torch.randint(0, VOCAB, (BATCH, LEN), generator=gen)
    tags = torch.randint(0, TAGS, (BATCH, LEN), generator=gen)
    lengths = torch.randint(2, LEN + 1, (BATCH,), generator=gen)
    mask = (torch.arange(LEN)[None] < lengths[:, None]).float()
    return tokens.to(device), tags.to(device), mask.to(device)


def main(dump=None):
    torch.manual_seed(11)
    device = torch_xla.device()
    model = Tagger().to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05, weight_decay=1e-4)
    gen = torch.Generator().manual_seed(3)
    torch_xla.sync()
    for step in range(4):
        tokens, tags, mask = batch(gen, device)
        optimizer.zero_grad()
        loss = model(tokens, tags, mask)
        loss.backward()
        optimizer.step()
        if dump and step == 2:
            params = list(model.parameters())
            live = [loss] + params + [p.grad for p in params]
            live += [optimizer.state[p]["sum"] for p in params]
            with open(dump, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main(*sys.argv[1:])
