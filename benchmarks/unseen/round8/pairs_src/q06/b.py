import torch, torch.nn as nn, torch.nn.functional as F
import xdump

B, X, Z, HID = 16, 48, 6, 32
WARM = 1000
STEP = 1000


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.e1, self.e2 = nn.Linear(X, HID), nn.Linear(HID, HID)
        self.mu, self.lv = nn.Linear(HID, Z), nn.Linear(HID, Z)
        self.d1, self.d2 = nn.Linear(Z, HID), nn.Linear(HID, X)

    def forward(self, x):
        h = F.elu(self.e2(F.elu(self.e1(x))))
        mu, lv = self.mu(h), self.lv(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * lv)
        return self.d2(F.elu(self.d1(z))), mu, lv


def kl_weight(step):
    return min(1.0, step / WARM)


xdump.seed(6)
dev = xdump.device()
net = VAE().to(dev)
opt = torch.optim.Adam(net.parameters(), lr=1e-3, amsgrad=True)
data = torch.rand(2, B, X).to(dev)
xdump.sync()


def step(i, n):
    opt.zero_grad()
    logits, mu, lv = net(data[i])
    rec = F.binary_cross_entropy_with_logits(logits, data[i], reduction="sum") / B
    kl = -0.5 * (1 + lv - mu.pow(2) - lv.exp()).sum(1).mean()
    loss = rec + kl_weight(n) * kl
    loss.backward()
    opt.step()
    return loss, rec.detach(), kl.detach()


step(0, 899)
xdump.sync()
loss, rec, kl = step(1, STEP)
named = list(net.named_parameters())
live = {"loss": loss, "rec": rec, "kl": kl}
live.update(named)
live.update(xdump.state_of(opt, named))
xdump.dump(live)
