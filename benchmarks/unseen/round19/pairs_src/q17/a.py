"""Keyword spotting: dilated temporal conv net on log-mel frames."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm


class TCN(nn.Module):
    def __init__(self, mel=20, ch=16, n=10):
        super().__init__()
        self.inp = nn.Conv1d(mel, ch, 1)
        self.c1 = nn.Conv1d(ch, ch, 3, dilation=1, padding=1)
        self.c2 = nn.Conv1d(ch, ch, 3, dilation=2, padding=2)
        self.c3 = nn.Conv1d(ch, ch, 3, dilation=4, padding=4)
        self.out = nn.Linear(ch, n)

    def forward(self, x):
        h = self.inp(x)
        for c in (self.c1, self.c2, self.c3):
            h = h + F.gelu(c(h))
        return self.out(h.amax(-1))


if __name__ == "__main__":
    torch.manual_seed(0)
    dev = xm.xla_device()
    net = TCN().to(dev)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for i in range(4):
        x = torch.randn(8, 20, 49).to(dev)
        y = torch.randint(0, 10, (8,)).to(dev)
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y, label_smoothing=0.1)
        loss.backward()
        xm.optimizer_step(opt)
        xm.mark_step()
    print(loss.item())
