import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

EPOCHS = 3
BATCH = 16


def make_data():
    g = torch.Generator().manual_seed(1)
    x = torch.randn(58, 1, 8, 8, generator=g)
    y = torch.randint(0, 4, (58,), generator=g)
    return TensorDataset(x, y)


net = nn.Sequential(
    nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(64, 4),
)

device = xm.xla_device()
net.to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
criterion = nn.CrossEntropyLoss()
train_loader = DataLoader(make_data(), batch_size=BATCH, shuffle=True)

for epoch in range(EPOCHS):
    net.train()
    running = 0.0
    for data, target in pl.MpDeviceLoader(train_loader, device):
        optimizer.zero_grad()
        loss = criterion(net(data), target)
        loss.backward()
        xm.optimizer_step(optimizer)
        running = loss
    print("epoch", epoch, "last loss", float(running))
