"""Scene-text recogniser: conv encoder, attention decoder over characters."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CHARS = "0123456789abcdefghijklmnopqrstuvwxyz"
GO, EOS = 0, 1


class Encoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.c1 = nn.Conv2d(1, dim // 2, 3, padding=1)
        self.c2 = nn.Conv2d(dim // 2, dim, 3, stride=(2, 1), padding=1)

    def forward(self, img):
        x = F.max_pool2d(F.relu(self.c1(img)), 2)
        x = F.relu(self.c2(x))
        return x.mean(2).transpose(1, 2)


class AttnDecoder(nn.Module):
    def __init__(self, dim, n_classes):
        super().__init__()
        self.emb = nn.Embedding(n_classes, dim)
        self.key = nn.Linear(dim, dim, bias=False)
        self.query = nn.Linear(dim, dim)
        self.cell = nn.GRUCell(2 * dim, dim)
        self.out = nn.Linear(dim, n_classes)

    def forward(self, memory, target, tf_ratio):
        keys = self.key(memory)
        h = memory.mean(1)
        token = torch.full_like(target[:, 0], GO)
        logits = []
        for t in range(target.size(1)):
            e = torch.bmm(keys, self.query(h)[:, :, None]).squeeze(-1) * keys.size(-1) ** -0.5
            ctx = torch.bmm(F.softmax(e, -1)[:, None], memory).squeeze(1)
            h = self.cell(torch.cat([self.emb(token), ctx], -1), h)
            logits.append(self.out(h))
            if random.random() < tf_ratio:
                token = target[:, t]
            else:
                token = logits[-1].argmax(-1)
        return torch.stack(logits, 1)


class Recogniser(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.n_classes = len(CHARS) + 2
        self.encoder = Encoder(dim)
        self.decoder = AttnDecoder(dim, self.n_classes)

    def forward(self, img, target, tf_ratio=1.0):
        return self.decoder(self.encoder(img), target, tf_ratio)


def batches(n, batch_size, max_len, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        img = torch.rand(batch_size, 1, 16, 32, generator=g)
        text = torch.randint(2, len(CHARS) + 2, (batch_size, max_len), generator=g)
        text[:, -1] = EOS
        yield img, text


def ratio_at(step, start=0.8, floor=0.4, span=4000):
    return max(floor, start - (start - floor) * step / span)


def main():
    torch.manual_seed(3)
    random.seed(3)
    device = torch_xla.device()
    net = Recogniser().to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    torch_xla.sync()
    total = torch.zeros((), device=device)
    for step, (img, text) in enumerate(batches(10, 4, 3, 5)):
        img, text = img.to(device), text.to(device)
        opt.zero_grad()
        logits = net(img, text, ratio_at(step))
        loss = F.cross_entropy(logits.flatten(0, 1), text.flatten())
        loss.backward()
        opt.step()
        total += loss.detach()
        torch_xla.sync()
    print(total.item() / 10)


if __name__ == "__main__":
    main()
