import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class AttentionPool(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.score = nn.Linear(dim, 1)

    def forward(self, h):
        w = torch.softmax(self.score(h).squeeze(-1), dim=1)
        return (w.unsqueeze(-1) * h).sum(1)


class Regressor(nn.Module):
    def __init__(self, d_in=5, dim=16):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(d_in, dim),
            nn.ReLU(),
            nn.Linear(dim, dim),
            nn.ReLU(),
        )
        self.pool = AttentionPool(dim)
        self.head = nn.Linear(dim, 2)

    def forward(self, x):
        return self.head(self.pool(self.encoder(x)))


def main():
    torch.manual_seed(10)
    device = torch_xla.device()
    model = Regressor().to(device)
    optim = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(5):
        x = torch.randn(8, 6, 5)
        y = torch.stack([x.amax((1, 2)), x.mean((1, 2))], 1)
        x, y = x.to(device), y.to(device)
        optim.zero_grad()
        loss = F.smooth_l1_loss(model(x), y)
        loss.backward()
        optim.step()
        torch_xla.sync()
        print(step, round(loss.item(), 4))


if __name__ == "__main__":
    main()
