"""Two tower contrastive training (tiny images, tiny captions)."""
from collections import namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

Spec = namedtuple("Spec", "batch dim vocab words")
SPEC = Spec(batch=8, dim=24, vocab=50, words=6)
EPS = 1e-12


def unit(v):
    length = v.norm(p=2, dim=-1, keepdim=True).clamp_min(EPS)
    return v / length


def mean_nll(scores, rows):
    logp = torch.log_softmax(scores, dim=1)
    return F.nll_loss(logp, rows)


class CaptionEncoder(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.table = nn.Embedding(spec.vocab, 16)
        self.hidden = nn.Linear(16, 32)
        self.head = nn.Linear(32, spec.dim)

    def forward(self, tokens):
        bag = self.table(tokens).mean(dim=1)
        return self.head(self.hidden(bag).tanh())


class PictureEncoder(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(),
        )
        self.head = nn.Linear(16, spec.dim)

    def forward(self, px):
        return self.head(self.stem(px).mean(dim=(2, 3)))


class ContrastiveModel(nn.Module):
    def __init__(self, spec):
        super().__init__()
        # pictures first so that seeds give the weights of the old checkpoints
        picture = PictureEncoder(spec)
        caption = CaptionEncoder(spec)
        self.temperature = nn.Parameter(torch.tensor(2.0))
        self.caption = caption
        self.picture = picture

    def forward(self, tokens, px):
        cap = unit(self.caption(tokens))
        pic = unit(self.picture(px))
        return torch.matmul(pic * self.temperature.exp(), cap.transpose(0, 1))

    def loss(self, scores):
        rows = torch.arange(scores.size(0), device=scores.device)
        by_caption = mean_nll(scores.transpose(0, 1), rows)
        by_picture = mean_nll(scores, rows)
        return (by_caption + by_picture) / 2


def synth(spec, gen):
    topic = torch.randint(0, 10, (spec.batch,), generator=gen)
    noise = torch.randn(spec.batch, 3, 12, 12, generator=gen)
    px = 0.1 * noise + topic.view(-1, 1, 1, 1) / 10
    tokens = (topic[:, None] * 5 + torch.arange(spec.words)) % spec.vocab
    return tokens, px


@torch.no_grad()
def retrieval_top1(scores):
    rows = torch.arange(scores.size(0), device=scores.device)
    return (scores.argmax(dim=1) == rows).float().mean()


def fit(spec=SPEC, steps=5):
    torch.manual_seed(21)
    gen = torch.Generator().manual_seed(5)
    dev = torch_xla.device()
    net = ContrastiveModel(spec).to(dev)
    opt = torch.optim.Adagrad(net.parameters(), lr=0.02)
    for step in range(steps):
        tokens, px = (t.to(dev) for t in synth(spec, gen))
        opt.zero_grad()
        scores = net(tokens, px)
        top1 = retrieval_top1(scores)
        loss = net.loss(scores)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print("step %d loss %.6f top1 %.3f" % (step, loss.item(), top1.item()))
    net.cpu()
    print("checksum %.9f" % sum(p.detach().double().abs().sum().item() for p in net.parameters()))


if __name__ == "__main__":
    fit()
