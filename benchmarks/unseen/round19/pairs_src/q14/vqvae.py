import os
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

FIX_COMMIT = os.environ.get("COMMIT", "stop") == "stop"


class Quantizer(nn.Module):
    def __init__(self, n=32, d=8):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(n, d))

    def forward(self, z):                       # B, L, D
        flat = z.reshape(-1, z.shape[-1])
        d2 = flat.pow(2).sum(1, True) - 2 * flat @ self.codes.t() + self.codes.pow(2).sum(1)
        q = self.codes[d2.argmin(1)].view_as(z)
        book = F.mse_loss(q, z.detach())
        if FIX_COMMIT:
            commit = F.mse_loss(z, q.detach())
        else:
            commit = F.mse_loss(z, q)
        return z + (q - z).detach(), book + 0.25 * commit


class VQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Sequential(nn.Conv1d(1, 12, 4, 2, 1), nn.ReLU(), nn.Conv1d(12, 8, 4, 2, 1))
        self.q = Quantizer()
        self.d = nn.Sequential(nn.ConvTranspose1d(8, 12, 4, 2, 1), nn.ReLU(), nn.ConvTranspose1d(12, 1, 4, 2, 1))

    def forward(self, x):
        z = self.e(x).transpose(1, 2)
        z, aux = self.q(z)
        return F.l1_loss(self.d(z.transpose(1, 2)), x) + aux


torch.manual_seed(0)
dev = torch_xla.device()
m = VQ().to(dev)
opt = torch.optim.Adam(m.parameters(), 1e-3)
for _ in range(4):
    t = torch.linspace(0, 6, 64)
    x = torch.sin(t * (1 + torch.rand(8, 1, 1)) + torch.rand(8, 1, 1)).to(dev)
    opt.zero_grad()
    loss = m(x)
    loss.backward()
    opt.step()
    torch_xla.sync()
print(loss.item())
