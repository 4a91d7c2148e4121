"""Discrete (Gumbel-softmax) autoencoder for genotype windows, 0/1/2 allele counts.

    step.py OUT STEP      writes the graph of training step STEP
"""
import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SNPS, LATENTS, CODES, BATCH = 24, 6, 8, 10
TAU_START, TAU_MIN, TAU_RATE, HOLD = 1.0, 0.4, 0.05, 4


def tau_at(step):
    """Temperature: held for a few steps, then decays linearly to the floor."""
    return max(TAU_MIN, TAU_START - TAU_RATE * max(0, step - HOLD))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(4, 5)
        self.conv = nn.Conv1d(5, 8, 5, padding=2)
        self.fc = nn.Linear(8 * SNPS, LATENTS * CODES)

    def forward(self, g):
        h = self.emb(g).transpose(1, 2)
        h = F.gelu(self.conv(h)).flatten(1)
        return self.fc(h).view(-1, LATENTS, CODES)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(LATENTS * CODES, 32)
        self.norm = nn.LayerNorm(32)
        self.fc2 = nn.Linear(32, SNPS * 3)

    def forward(self, code):
        h = F.gelu(self.norm(self.fc1(code.flatten(1))))
        return self.fc2(h).view(-1, SNPS, 3)


class GenoCoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = Encoder()
        self.dec = Decoder()

    def forward(self, g, noise, tau):
        logits = self.enc(g)
        gumbel = -torch.log(-torch.log(noise.clamp(1e-6, 1 - 1e-6)))
        code = F.softmax((logits + gumbel) / tau, dim=-1)
        q = F.softmax(logits, dim=-1)
        kl = (q * (F.log_softmax(logits, dim=-1) + 2.0794415)).sum(dim=(1, 2)).mean()
        return self.dec(code), kl


def loss_fn(out, kl, g, missing, beta):
    ce = F.cross_entropy(out.transpose(1, 2), g.clamp(max=2), reduction="none")
    rec = (ce * (~missing)).sum() / (~missing).sum()
    return rec + beta * kl, rec


def live(model, opt, *extra):
    out = list(extra)
    for p in model.parameters():
        out.append(p.data)
        if p.grad is not None:
            out.append(p.grad)
        for v in opt.state.get(p, {}).values():
            if torch.is_tensor(v) and v.device.type == "xla":
                out.append(v)
    return out


def main(path, at):
    torch.manual_seed(1)
    dev = torch_xla.device()
    model = GenoCoder().to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    for step in range(at + 1):
        gen = torch.Generator().manual_seed(step)
        g = torch.randint(0, 3, (BATCH, SNPS), generator=gen)
        missing = torch.rand(BATCH, SNPS, generator=gen) < 0.1
        g = torch.where(missing, torch.full_like(g, 3), g).to(dev)
        noise = torch.rand(BATCH, LATENTS, CODES, generator=gen).to(dev)
        missing = missing.to(dev)
        torch_xla.sync()

        opt.zero_grad()
        out, kl = model(g, noise, tau_at(step))
        loss, rec = loss_fn(out, kl, g, missing, beta=0.02)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step == at:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, loss, rec, kl)))
        torch_xla.sync()
        print(step, tau_at(step), loss.item())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
