"""Image-text contrastive training, two small towers."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class ImageTower(nn.Module):
    def __init__(self, dim, out):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 4, stride=4)
        self.mix = nn.Linear(16, 16)
        self.fc1 = nn.Linear(dim, 2 * dim)
        self.fc2 = nn.Linear(2 * dim, dim)
        self.proj = nn.Linear(dim, out, bias=False)

    def forward(self, img):
        x = self.patch(img).flatten(2)
        x = x + self.mix(x)
        x = x.transpose(1, 2)
        x = x + self.fc2(F.relu(self.fc1(x)))
        return self.proj(x.mean(1))


class TextTower(nn.Module):
    def __init__(self, vocab, dim, heads, out):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocab, dim)
        self.norm = nn.LayerNorm(dim)
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)
        self.proj = nn.Linear(dim, out, bias=False)

    def split(self, x):
        b, t, d = x.shape
        return x.view(b, t, self.heads, d // self.heads).transpose(1, 2)

    def forward(self, ids, keep):
        x = self.embed(ids)
        h = self.norm(x)
        q, k, v = self.split(self.q(h)), self.split(self.k(h)), self.split(self.v(h))
        att = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        att = att.masked_fill(~keep[:, None, None], -1e9).softmax(-1)
        y = (att @ v).transpose(1, 2).flatten(2)
        x = x + self.o(y)
        w = keep[..., None].to(x.dtype)
        return self.proj((x * w).sum(1) / w.sum(1))


class Clip(nn.Module):
    def __init__(self, vocab=60, dim=32, heads=4, out=24):
        super().__init__()
        self.image = ImageTower(dim, out)
        self.text = TextTower(vocab, dim, heads, out)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(10.0)))
        self.logit_bias = nn.Parameter(torch.tensor(-10.0))

    def forward(self, img, ids, keep):
        a = F.normalize(self.image(img), dim=-1)
        b = F.normalize(self.text(ids, keep), dim=-1)
        return self.logit_scale.exp() * a @ b.t() + self.logit_bias


def sigmoid_loss(logits):
    n = logits.shape[0]
    sign = 2 * torch.eye(n, device=logits.device) - 1
    return -F.logsigmoid(sign * logits).sum() / n


def make_batch(gen, bs=6, t=12):
    img = torch.randn(bs, 3, 16, 16, generator=gen)
    ids = torch.randint(0, 60, (bs, t), generator=gen)
    lens = torch.randint(t // 2, t + 1, (bs, 1), generator=gen)
    return img, ids, torch.arange(t)[None] < lens


def main(steps=6, init=None):
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(3)
    device = torch_xla.device()
    model = Clip()
    if init is not None:
        init(model)
    model = model.to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(steps):
        img, ids, keep = (b.to(device) for b in make_batch(gen))
        loss = sigmoid_loss(model(img, ids, keep))
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.detach())
        torch_xla.sync()
    return model, [l.item() for l in losses]


if __name__ == "__main__":
    print(main()[1])
