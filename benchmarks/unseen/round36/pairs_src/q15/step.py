"""Single-cell count VAE (zero-inflated Poisson), KL annealed over the epochs.

Writes the step's HLO for two steps of one run:  step.py a.hlo b.hlo
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CELLS, GENES, BATCHES, HID, LAT = 12, 30, 3, 20, 5
KL_WARMUP_EPOCHS, STEPS_PER_EPOCH = 4, 2
DUMP_AT = (7, 8)


class FCBlock(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.fc = nn.Linear(d_in, d_out)
        self.norm = nn.LayerNorm(d_out)

    def forward(self, x, onehot):
        return F.relu(self.norm(self.fc(torch.cat([x, onehot], dim=1))))


class CountVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = FCBlock(GENES + BATCHES, HID)
        self.mu = nn.Linear(HID, LAT)
        self.logvar = nn.Linear(HID, LAT)
        self.dec = FCBlock(LAT + BATCHES, HID)
        self.rho = nn.Linear(HID, GENES)
        self.drop = nn.Linear(HID, GENES)

    def forward(self, counts, onehot, eps):
        lib = counts.sum(dim=1, keepdim=True)
        h = self.enc(torch.log1p(counts), onehot)
        mu, logvar = self.mu(h), self.logvar(h).clamp(-8.0, 8.0)
        z = mu + torch.exp(0.5 * logvar) * eps
        d = self.dec(z, onehot)
        rate = lib * F.softmax(self.rho(d), dim=1)
        return mu, logvar, rate, self.drop(d)


def zip_nll(counts, rate, logit, eps=1e-6):
    """-log p of the zero-inflated Poisson, without the log-factorial term."""
    zero = F.softplus(-logit - rate) - F.softplus(-logit)
    some = -F.softplus(-logit) - logit + counts * torch.log(rate + eps) - rate
    return -torch.where(counts < 0.5, zero, some).sum(dim=1)


def kl_weight(step):
    return min(1.0, (step // STEPS_PER_EPOCH) / KL_WARMUP_EPOCHS)


def train_step(net, opt, counts, onehot, eps, step):
    opt.zero_grad()
    mu, logvar, rate, logit = net(counts, onehot, eps)
    rec = zip_nll(counts, rate, logit)
    kl = 0.5 * (mu.pow(2) + logvar.exp() - 1.0 - logvar).sum(dim=1)
    loss = (rec + kl_weight(step) * kl).mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 5.0)
    opt.step()
    opt.zero_grad()
    return loss.detach(), rec.detach().mean(), kl.detach().mean()


def live(net, opt, logs):
    out = list(net.parameters())
    for p in net.parameters():
        out += [opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
    return out + list(logs)


def main(paths):
    torch.manual_seed(15)
    dev = torch_xla.device()
    net = CountVAE().to(dev)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3, eps=0.01, weight_decay=1e-6)
    counts = torch.poisson(3.0 * torch.rand(CELLS, GENES)).to(dev)
    onehot = F.one_hot(torch.arange(CELLS) % BATCHES, BATCHES).float().to(dev)
    torch_xla.sync()
    for step in range(10):
        eps = torch.randn(CELLS, LAT).to(dev)
        logs = train_step(net, opt, counts, onehot, eps, step)
        if step in DUMP_AT and paths:
            with open(paths[DUMP_AT.index(step)], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(net, opt, logs)))
        torch_xla.sync()
        print(step, kl_weight(step), *(v.item() for v in logs))


if __name__ == "__main__":
    main(sys.argv[1:3])
