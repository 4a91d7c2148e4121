"""Single-cell expression VAE: zero-inflated counts, batch covariate, KL warm-up."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

GENES, LATENT, HID, BATCHES, CELLS = 20, 4, 16, 3, 8
EPS = 1e-6


class FCBlock(nn.Module):

    def __init__(self, n_in, n_out):
        super().__init__()
        self.fc = nn.Linear(n_in, n_out)
        self.norm = nn.LayerNorm(n_out)

    def forward(self, x):
        return F.relu(self.norm(self.fc(x)))


class CountVAE(nn.Module):

    def __init__(self):
        super().__init__()
        self.encoder = FCBlock(GENES + BATCHES, HID)
        self.z_mean = nn.Linear(HID, LATENT)
        self.z_logvar = nn.Linear(HID, LATENT)
        self.decoder = FCBlock(LATENT + BATCHES, HID)
        self.scale = nn.Linear(HID, GENES)
        self.dropout_logit = nn.Linear(HID, GENES)

    def inference(self, counts, covariate, eps):
        h = self.encoder(torch.cat([torch.log1p(counts), covariate], dim=1))
        mean, logvar = self.z_mean(h), self.z_logvar(h).clamp(-8.0, 8.0)
        return mean, logvar, mean + eps * torch.exp(0.5 * logvar)

    def generative(self, z, covariate, library):
        h = self.decoder(torch.cat([z, covariate], dim=1))
        rate = library * torch.softmax(self.scale(h), dim=-1)
        return rate, self.dropout_logit(h)

    def forward(self, counts, covariate, eps):
        library = counts.sum(dim=1, keepdim=True)
        mean, logvar, z = self.inference(counts, covariate, eps)
        rate, pi = self.generative(z, covariate, library)
        return mean, logvar, rate, pi


def zip_log_prob(x, rate, pi):
    """Zero-inflated Poisson, without the term that only depends on x."""
    log_pois = x * torch.log(rate + EPS) - rate
    zero = F.softplus(-rate + F.softplus(pi) - pi) - F.softplus(pi) + pi
    positive = log_pois - F.softplus(pi)
    return torch.where(x < 0.5, zero, positive)


def kl_standard_normal(mean, logvar):
    return 0.5 * (mean.pow(2) + logvar.exp() - 1.0 - logvar).sum(dim=1)


class KLWarmup:

    def __init__(self, steps):
        self.steps = steps

    def __call__(self, step):
        return min(1.0, (step + 1) / self.steps)


def minibatch(gen, device):
    lam = torch.rand(CELLS, GENES, generator=gen) * 4
    counts = torch.poisson(lam, generator=gen)
    covariate = F.one_hot(torch.randint(0, BATCHES, (CELLS,), generator=gen), BATCHES).float()
    eps = torch.randn(CELLS, LATENT, generator=gen)
    return counts.to(device), covariate.to(device), eps.to(device)


def pending(model, optimizer, *more):
    out = list(more)
    for p in model.parameters():
        st = optimizer.state[p]
        out += [p, p.grad, st["exp_avg"], st["exp_avg_sq"]]
    return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--warmup", type=int, default=5)
    ap.add_argument("--steps", type=int, default=7)
    ap.add_argument("--dump", nargs="*", default=[], metavar="STEP:FILE")
    args = ap.parse_args()
    dumps = dict(d.split(":") for d in args.dump)

    torch.manual_seed(0)
    device = torch_xla.device()
    model = CountVAE().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    kl_weight = KLWarmup(args.warmup)
    gen = torch.Generator().manual_seed(8)
    torch_xla.sync()

    for step in range(args.steps):
        counts, covariate, eps = minibatch(gen, device)
        mean, logvar, rate, pi = model(counts, covariate, eps)
        recon = -zip_log_prob(counts, rate, pi).sum(dim=1)
        kl = kl_standard_normal(mean, logvar)
        loss = (recon + kl_weight(step) * kl).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        del mean, logvar, rate, pi, recon, kl
        if str(step) in dumps:
            with open(dumps[str(step)], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(pending(model, optimizer, loss)))
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main()
