"""Two tower contrastive training (tiny images, tiny captions)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BATCH, DIM, VOCAB, WORDS = 8, 24, 50, 6
device = torch_xla.device()


class ImageTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.c2 = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.proj = nn.Linear(16, DIM)

    def forward(self, x):
        x = F.relu(self.c1(x))
        x = F.relu(self.c2(x))
        x = x.mean(dim=(2, 3))
        return self.proj(x)


class TextTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, 16)
        self.fc = nn.Linear(16, 32)
        self.proj = nn.Linear(32, DIM)

    def forward(self, ids):
        x = self.emb(ids).mean(dim=1)
        x = torch.tanh(self.fc(x))
        return self.proj(x)


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.image = ImageTower()
        self.text = TextTower()
        self.log_scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, pixels, ids):
        img = F.normalize(self.image(pixels), dim=-1)
        txt = F.normalize(self.text(ids), dim=-1)
        scale = self.log_scale.exp()
        return scale * img @ txt.t()


def clip_loss(logits):
    target = torch.arange(logits.size(0), device=logits.device)
    loss_i = F.cross_entropy(logits, target)
    loss_t = F.cross_entropy(logits.t(), target)
    return (loss_i + loss_t) / 2


def fake_batch(gen):
    cls = torch.randint(0, 10, (BATCH,), generator=gen)
    pixels = 0.1 * torch.randn(BATCH, 3, 12, 12, generator=gen) + cls.view(-1, 1, 1, 1) / 10
    ids = (cls[:, None] * 5 + torch.arange(WORDS)) % VOCAB
    return pixels, ids


def main():
    torch.manual_seed(21)
    gen = torch.Generator().manual_seed(5)
    model = TwoTower().to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)

    for step in range(5):
        pixels, ids = fake_batch(gen)
        pixels, ids = pixels.to(device), ids.to(device)
        optimizer.zero_grad()
        logits = model(pixels, ids)
        loss = clip_loss(logits)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            hits = (logits.argmax(dim=1) == torch.arange(BATCH, device=device)).float().mean()
        torch_xla.sync()
        print("step %d loss %.6f top1 %.3f" % (step, loss.item(), hits.item()))

    check = sum(p.detach().double().abs().sum().item() for p in model.cpu().parameters())
    print("checksum %.9f" % check)


if __name__ == "__main__":
    main()
