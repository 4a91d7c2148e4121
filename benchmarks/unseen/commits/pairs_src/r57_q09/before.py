"""Keyword spotting on log-mel features with a small MatchboxNet and averaged weights for evaluation."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

N_MELS, FRAMES, KEYWORDS = 32, 49, 12


class SeparableConv(nn.Module):
    def __init__(self, cin, cout, kernel):
        super().__init__()
        self.depthwise = nn.Conv1d(cin, cin, kernel, padding=kernel // 2, groups=cin, bias=False)
        self.pointwise = nn.Conv1d(cin, cout, 1, bias=False)
        self.bn = nn.BatchNorm1d(cout)

    def forward(self, x):
        return self.bn(self.pointwise(self.depthwise(x)))


class ResidualBlock(nn.Module):
    def __init__(self, cin, cout, kernel):
        super().__init__()
        self.conv_1 = SeparableConv(cin, cout, kernel)
        self.conv_2 = SeparableConv(cout, cout, kernel)
        self.skip = nn.Sequential(nn.Conv1d(cin, cout, 1, bias=False), nn.BatchNorm1d(cout))

    def forward(self, x):
        y = self.conv_2(F.relu(self.conv_1(x)))
        return F.relu(y + self.skip(x))


class MatchboxNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.prologue = SeparableConv(N_MELS, width, 11)
        self.blocks = nn.Sequential(ResidualBlock(width, 24, 13))
        self.epilogue = nn.Conv1d(24, 48, 1)
        self.classifier = nn.Linear(48, KEYWORDS)

    def forward(self, x):
        x = F.relu(self.prologue(x))
        x = F.relu(self.epilogue(self.blocks(x)))
        return self.classifier(x.mean(dim=-1))


class AveragedModel:
    def __init__(self, model, decay):
        self.module = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for avg, p in zip(self.module.parameters(), model.parameters()):
            avg.mul_(self.decay).add_(p, alpha=1 - self.decay)


def train_step(model, ema, optimizer, feats, target):
    logits = model(feats)
    loss = F.cross_entropy(logits, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ema.update(model)
    correct = (logits.argmax(-1) == target).sum()
    return loss.detach(), correct


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = MatchboxNet().to(device).train()
    ema = AveragedModel(model, decay=0.998)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3, nesterov=True)
    torch_xla.sync()
    log = []
    for step in range(4):
        feats = torch.randn(16, N_MELS, FRAMES)
        target = torch.randint(0, KEYWORDS, (16,))
        log.append(train_step(model, ema, optimizer, feats.to(device), target.to(device)))
        torch_xla.sync()
    for step, (loss, correct) in enumerate(log):
        xm.master_print(f"step {step} loss {loss.item():.4f} correct {correct.item()}/16")


if __name__ == "__main__":
    main()
