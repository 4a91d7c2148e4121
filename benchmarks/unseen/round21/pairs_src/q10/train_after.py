import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 2 * dim)
        self.fc2 = nn.Linear(2 * dim, dim)

    def forward(self, x):
        h = self.fc1(self.norm(x))
        return x + self.fc2(F.gelu(h, approximate="tanh"))


class Backbone(nn.Module):
    def __init__(self, d_in=12, dim=16):
        super().__init__()
        self.stem = nn.Linear(d_in, dim)
        self.block = Block(dim)
        self.proj = nn.Linear(dim, 8)

    def forward(self, x):
        return self.proj(self.block(self.stem(x)))


class SiamModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.predictor = nn.Sequential(
            nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 8))

    def forward(self, x1, x2):
        z1, z2 = self.backbone(x1), self.backbone(x2)
        p1, p2 = self.predictor(z1), self.predictor(z2)
        return 0.5 * (self.distance(p1, z2) + self.distance(p2, z1))

    @staticmethod
    def distance(p, z):
        return -F.cosine_similarity(p, z.detach(), dim=-1).mean()


def main():
    torch.manual_seed(7)
    device = torch_xla.device()
    model = SiamModel().to(device)
    optim = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    data = torch.randn(5, 8, 12)
    for batch in data:
        x1 = (batch + 0.2 * torch.randn_like(batch)).to(device)
        x2 = (batch + 0.2 * torch.randn_like(batch)).to(device)
        optim.zero_grad()
        loss = model(x1, x2)
        loss.backward()
        optim.step()
        torch_xla.sync()
        print("loss %.4f" % loss.item())


if __name__ == "__main__":
    main()
