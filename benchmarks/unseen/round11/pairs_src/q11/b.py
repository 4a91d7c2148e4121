"""MLP-Mixer style image classifier."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Mlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.act = nn.GELU(approximate="tanh")
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class MixerBlock(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.token_mix = Mlp(tokens, tokens * 2)
        self.norm2 = nn.LayerNorm(dim)
        self.channel_mix = Mlp(dim, dim * 2)

    def forward(self, x):
        x = x + self.token_mix(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channel_mix(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self, img=16, patch=4, dim=24, depth=2, classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, dim, patch, patch)
        tokens = (img // patch) ** 2
        self.blocks = nn.Sequential(*[MixerBlock(tokens, dim) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        x = self.norm(self.blocks(x)).mean(1)
        return self.head(x)


def train(steps=5, bs=8):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Mixer().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    for step in range(steps):
        x = torch.randn(bs, 3, 16, 16).to(device)
        y = torch.randint(0, 10, (bs,)).to(device)
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 2 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    train()
