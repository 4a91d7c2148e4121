"""scRNA count VAE (zero inflated Poisson), conditional on the sequencing batch, with KL warm-up.

Run: XLA_HLO_DEBUG=1 XLA_IR_DEBUG=1 PJRT_DEVICE=CPU python step.py
Writes a.hlo (step 3) and b.hlo (step 4) of the same run.
"""
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

HERE = os.path.dirname(os.path.abspath(__file__))
GENES, BATCHES, HIDDEN, LATENT, CELLS = 40, 3, 24, 6, 16
WARMUP_STEPS = 4


class FCBlock(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.fc = nn.Linear(n_in, n_out)
        self.bn = nn.BatchNorm1d(n_out, momentum=0.01, eps=1e-3)

    def forward(self, x):
        return F.relu(self.bn(self.fc(x)))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.block1 = FCBlock(GENES + BATCHES, HIDDEN)
        self.block2 = FCBlock(HIDDEN, HIDDEN)
        self.mean = nn.Linear(HIDDEN, LATENT)
        self.logvar = nn.Linear(HIDDEN, LATENT)

    def forward(self, x, batch_onehot):
        h = torch.cat([torch.log1p(x), batch_onehot], dim=1)
        h = self.block2(self.block1(h))
        return self.mean(h), self.logvar(h)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.block1 = FCBlock(LATENT + BATCHES, HIDDEN)
        self.scale = nn.Linear(HIDDEN, GENES)
        self.dropout_logits = nn.Linear(HIDDEN, GENES)

    def forward(self, z, batch_onehot, library):
        h = self.block1(torch.cat([z, batch_onehot], dim=1))
        rate = library * F.softmax(self.scale(h), dim=-1)
        return rate, self.dropout_logits(h)


class CountVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.decoder = Decoder()

    def forward(self, x, batch_onehot, noise):
        mu, logvar = self.encoder(x, batch_onehot)
        z = mu + torch.exp(0.5 * logvar) * noise
        library = x.sum(dim=1, keepdim=True)
        rate, logits = self.decoder(z, batch_onehot, library)
        return mu, logvar, rate, logits


def zip_nll(x, rate, logits):
    """-log p(x) of the zero inflated Poisson, up to lgamma(x + 1)."""
    log_rate = torch.log(rate + 1e-8)
    softplus_pi = F.softplus(-logits)
    case_zero = F.softplus(-rate - logits) - softplus_pi
    case_non_zero = -logits - softplus_pi + x * log_rate - rate
    return -torch.where(x < 1e-8, case_zero, case_non_zero).sum(dim=-1)


def kl_normal(mu, logvar):
    return -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(dim=-1)


def kl_weight(step):
    return min(1.0, step / WARMUP_STEPS)


def live_tensors(model, opt, loss):
    out = [loss]
    for p in model.parameters():
        out.append(p)
        if p.grad is not None:
            out.append(p.grad)
        for key in ("exp_avg", "exp_avg_sq"):
            if key in opt.state[p]:
                out.append(opt.state[p][key])
    for b in model.buffers():
        out.append(b)
    return out


def main():
    torch.manual_seed(11)
    device = torch_xla.device()
    model = CountVAE().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3, eps=0.01)
    torch_xla.sync()
    gen = torch.Generator().manual_seed(5)
    for step in range(1, 6):
        x = torch.poisson(torch.rand(CELLS, GENES, generator=gen) * 3, generator=gen)
        batch = torch.randint(0, BATCHES, (CELLS,), generator=gen)
        noise = torch.randn(CELLS, LATENT, generator=gen)
        x, noise = x.to(device), noise.to(device)
        onehot = F.one_hot(batch, BATCHES).float().to(device)

        opt.zero_grad()
        mu, logvar, rate, logits = model(x, onehot, noise)
        reconst = zip_nll(x, rate, logits)
        kl = kl_normal(mu, logvar)
        loss = (reconst + kl_weight(step) * kl).mean()
        loss.backward()
        opt.step()

        if step in (3, 4):
            text = torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(model, opt, loss))
            name = {3: "a.hlo", 4: "b.hlo"}[step]
            with open(os.path.join(HERE, name), "w") as f:
                f.write(text)
        torch_xla.sync()
        print(step, kl_weight(step), loss.item())


if __name__ == "__main__":
    main()
