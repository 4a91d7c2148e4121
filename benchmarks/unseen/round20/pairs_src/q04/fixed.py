import torch
import torch.nn as nn
import torch_xla

# electricity load forecasting: whole history lives on the device,
# each step trains on the next window
CTX, HOR, SERIES = 48, 12, 10


class GRUForecaster(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.conv = nn.Conv1d(SERIES, hidden, 5, padding=2)
        self.mix = nn.Linear(CTX, HOR)
        self.out = nn.Conv1d(hidden, SERIES, 1)

    def forward(self, x):
        h = torch.relu(self.conv(x))
        return self.out(torch.tanh(self.mix(h)))


dev = torch_xla.device()
torch.manual_seed(7)
t = torch.arange(600.) / 24
history = torch.stack([torch.sin(t * (i + 1)) + 0.1 * torch.randn(600) for i in range(SERIES)]).to(dev)
net = GRUForecaster().to(dev)
optimizer = torch.optim.Adagrad(net.parameters(), lr=0.01)
torch_xla.sync()

for step in range(6):
    start = step * HOR
    idx = torch.arange(start, start + CTX + HOR).to(dev)
    window = history.index_select(1, idx).unsqueeze(0)
    past = window[:, :, :CTX]
    future = window[:, :, CTX:]
    scale = past.abs().mean(dim=-1, keepdim=True) + 1e-3
    pred = net(past / scale) * scale
    loss = nn.functional.smooth_l1_loss(pred, future)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
