"""Zero-inflated count VAE for single-cell expression, KL warm-up over epochs.

usage: step.py OUT STEP      writes the pending graph of training step STEP
"""
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

GENES, BATCHES, LATENT, WARMUP = 48, 3, 6, 4


class Encoder(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.fc1 = nn.Linear(GENES + BATCHES, hidden)
        self.bn1 = nn.BatchNorm1d(hidden, momentum=0.01, eps=1e-3)
        self.fc2 = nn.Linear(hidden, hidden)
        self.mu = nn.Linear(hidden, LATENT)
        self.logvar = nn.Linear(hidden, LATENT)

    def forward(self, counts, batch):
        x = torch.cat([torch.log1p(counts), batch], dim=-1)
        h = F.relu(self.bn1(self.fc1(x)))
        h = F.relu(self.fc2(h))
        return self.mu(h), self.logvar(h).clamp(-8.0, 8.0)


class Decoder(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.fc = nn.Linear(LATENT + BATCHES, hidden)
        self.bn = nn.BatchNorm1d(hidden, momentum=0.01, eps=1e-3)
        self.scale = nn.Linear(hidden, GENES)
        self.drop = nn.Linear(hidden, GENES)
        self.log_theta = nn.Parameter(torch.zeros(GENES))

    def forward(self, z, batch, library):
        h = F.relu(self.bn(self.fc(torch.cat([z, batch], dim=-1))))
        rate = F.softmax(self.scale(h), dim=-1) * library
        return rate, self.drop(h), self.log_theta.exp()


def zinb_nll(x, mu, pi_logits, theta, eps=1e-8):
    log_theta_mu = torch.log(theta + mu + eps)
    nb_zero = theta * (torch.log(theta + eps) - log_theta_mu)
    case_zero = F.softplus(nb_zero - pi_logits) - F.softplus(-pi_logits)
    case_pos = (
        -pi_logits
        - F.softplus(-pi_logits)
        + nb_zero
        + x * (torch.log(mu + eps) - log_theta_mu)
        + torch.lgamma(x + theta)
        - torch.lgamma(theta)
        - torch.lgamma(x + 1.0)
    )
    is_zero = (x < eps).float()
    ll = is_zero * case_zero + (1.0 - is_zero) * case_pos
    return -ll.sum(dim=-1)


def kl_weight(step):
    return min(1.0, (step + 1) / WARMUP)


def main(out, want):
    torch.manual_seed(3)
    device = xm.xla_device()
    enc, dec = Encoder().to(device), Decoder().to(device)
    params = list(enc.parameters()) + list(dec.parameters())
    opt = torch.optim.Adam(params, lr=2e-3, eps=1e-2)
    for step in range(want + 1):
        counts = torch.poisson(torch.rand(16, GENES) * 3).to(device)
        batch = F.one_hot(torch.randint(BATCHES, (16,)), BATCHES).float().to(device)
        noise = torch.randn(16, LATENT).to(device)
        torch_xla.sync()

        library = counts.sum(dim=-1, keepdim=True)
        mu, logvar = enc(counts, batch)
        z = mu + noise * torch.exp(0.5 * logvar)
        rate, pi, theta = dec(z, batch, library)
        recon = zinb_nll(counts, rate, pi, theta)
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(dim=-1)
        loss = (recon + kl_weight(step) * kl).mean()
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)

        if step == want:
            live = [loss.detach(), recon.detach().mean(), kl.detach().mean()]
            live += [p.detach() for p in params]
            live += [b for m in (enc, dec) for b in m.buffers()]
            live += [opt.state[p][k] for p in params for k in ("exp_avg", "exp_avg_sq")]
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
