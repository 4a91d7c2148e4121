"""Transfer learning on retina patches: small pretrained trunk plus a new head."""
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


class Basic(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.short = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.short(x))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 1, 1)
        self.l1 = Basic(8, 16, 2)
        self.l2 = Basic(16, 24, 2)
        self.head = nn.Linear(24, 4)

    def forward(self, x):
        x = self.l2(self.l1(self.stem(x)))
        return self.head(x.mean((2, 3)))


def fit(model, device, steps=3):
    opt = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, nesterov=True)
    lossf = nn.BCEWithLogitsLoss()
    model.train()
    for part in (model.stem, model.l1):
        part.requires_grad_(False)
    for _ in range(steps):
        x = torch.rand(6, 3, 32, 32).to(device)
        y = (torch.rand(6, 4) > 0.5).float().to(device)
        opt.zero_grad()
        loss = lossf(model(x), y)
        loss.backward()
        xm.optimizer_step(opt)
        torch_xla.sync()


torch.manual_seed(4)
device = torch_xla.device()
fit(Classifier().to(device), device)
