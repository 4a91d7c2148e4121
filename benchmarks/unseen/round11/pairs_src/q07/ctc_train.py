import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class SpeechBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        att = torch.softmax(q @ k.transpose(-1, -2) / (c // self.heads) ** 0.5, dim=-1)
        x = x + self.proj((att @ v).transpose(1, 2).reshape(b, t, c))
        return x + self.ff(self.ln2(x))


class Encoder(nn.Module):
    def __init__(self, n_mels=20, dim=32, depth=3, classes=12, layerdrop=0.2):
        super().__init__()
        self.sub = nn.Sequential(nn.Conv1d(n_mels, dim, 3, stride=2, padding=1), nn.GELU(),
                                 nn.Conv1d(dim, dim, 3, stride=2, padding=1), nn.GELU())
        self.layers = nn.ModuleList([SpeechBlock(dim, 4) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.fc = nn.Linear(dim, classes)
        self.layerdrop = layerdrop

    def forward(self, mel):
        x = self.sub(mel).transpose(1, 2)
        for layer in self.layers:
            p = np.random.random()
            if not self.training or p > self.layerdrop:
                x = layer(x)
        return self.fc(self.norm(x))


class Trainer:
    def __init__(self):
        self.device = torch_xla.device()
        self.model = Encoder().to(self.device)
        self.optim = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.optim, 50)

    def batch(self):
        return torch.randn(4, 20, 64), torch.randint(0, 12, (4, 16))

    def step(self):
        mel, target = (t.to(self.device) for t in self.batch())
        logits = self.model(mel)
        loss = F.cross_entropy(logits.transpose(1, 2), target)
        self.optim.zero_grad(set_to_none=False)
        loss.backward()
        self.optim.step()
        self.sched.step()
        torch_xla.sync()
        return loss

    def run(self, n):
        self.model.train()
        for i in range(n):
            loss = self.step()
            if i % 4 == 0:
                print("update", i, "loss", round(loss.item(), 4))


if __name__ == "__main__":
    np.random.seed(0)
    torch.manual_seed(0)
    Trainer().run(12)
