"""Finetune a small pretrained body: first only the head, later the upper block, later everything."""
import torch
import torch.nn as nn
import torch_xla

STAGES = {0: ["head"], 4: ["head", "block2"], 8: ["head", "block2", "block1"]}


class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.block1 = nn.Sequential(nn.Linear(10, 16), nn.ReLU())
        self.block2 = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.block2(self.block1(x)))


def set_stage(model, names):
    for p in model.parameters():
        p.requires_grad_(False)
    for n in names:
        for p in getattr(model, n).parameters():
            p.requires_grad_(True)
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.02)


def main():
    torch.manual_seed(4)
    dev = torch_xla.device()
    model = Body().to(dev)
    opt = None
    for step in range(12):
        if step in STAGES:
            opt = set_stage(model, STAGES[step])
            print("training", STAGES[step])
        x = torch.randn(6, 10).to(dev)
        y = torch.randint(0, 3, (6,)).to(dev)
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()


main()
