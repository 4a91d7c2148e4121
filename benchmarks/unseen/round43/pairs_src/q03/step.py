"""VAE on SELFIES-like token strings: GRU-free conv encoder, MLP decoder, KL warm-up, free bits."""
import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

B, LEN, VOCAB, EMB, LATENT = 6, 10, 13, 8, 5
WARMUP = 4
FREE_BITS = 0.05


class SelfiesVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, EMB, padding_idx=0)
        self.conv1 = nn.Conv1d(EMB, 12, 3, padding=1)
        self.conv2 = nn.Conv1d(12, 12, 3, stride=2, padding=1)
        self.mu = nn.Linear(12 * 5, LATENT)
        self.logvar = nn.Linear(12 * 5, LATENT)
        self.dec1 = nn.Linear(LATENT, 24)
        self.dec2 = nn.Linear(24, LEN * VOCAB)

    def forward(self, tokens, noise):
        h = self.embed(tokens).transpose(1, 2)
        h = F.elu(self.conv1(h))
        h = F.elu(self.conv2(h)).flatten(1)
        mu, logvar = self.mu(h), self.logvar(h).clamp(-8.0, 8.0)
        z = mu + noise * (0.5 * logvar).exp()
        logits = self.dec2(F.elu(self.dec1(z))).view(-1, LEN, VOCAB)
        return logits, mu, logvar


def kl_weight(step):
    return min(1.0, step / WARMUP)


def elbo(model, tokens, noise, beta):
    logits, mu, logvar = model(tokens, noise)
    nll = F.cross_entropy(logits.flatten(0, 1), tokens.flatten(), ignore_index=0, reduction="none")
    rec = nll.view(tokens.shape).sum(1).mean()
    kl = 0.5 * (mu.pow(2) + logvar.exp() - 1.0 - logvar)
    kl = torch.clamp(kl.mean(0), min=FREE_BITS).sum()
    return rec + beta * kl, rec, kl


def make_batch(gen):
    tokens = torch.randint(1, VOCAB, (B, LEN), generator=gen)
    lengths = torch.randint(4, LEN + 1, (B, 1), generator=gen)
    tokens = torch.where(torch.arange(LEN)[None] < lengths, tokens, 0)
    return tokens, torch.randn(B, LATENT, generator=gen)


def live_tensors(model, opt, extra):
    out = list(extra) + list(model.parameters())
    for p in model.parameters():
        st = opt.state[p]
        out += [st[k] for k in sorted(st) if torch.is_tensor(st[k]) and st[k].device.type == "xla"]
    return out


def main(prefix):
    """Writes the graphs of step 3 (a) and of step 4 (b)."""
    torch.manual_seed(21)
    gen = torch.Generator().manual_seed(22)
    dev = torch_xla.device()
    model = SelfiesVAE().to(dev)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.95, momentum=0.5)
    for step in range(6):
        tokens, noise = (t.to(dev) for t in make_batch(gen))
        torch_xla.sync()
        opt.zero_grad(set_to_none=True)
        loss, rec, kl = elbo(model, tokens, noise, kl_weight(step))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        if step in (3, 4):
            name = os.path.join(prefix, {3: "a.hlo", 4: "b.hlo"}[step])
            with open(name, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(
                    live_tensors(model, opt, [loss.detach(), rec.detach(), kl.detach()])))
        torch_xla.sync()
        print(step, loss.item(), rec.item(), kl.item())


if __name__ == "__main__":
    main(sys.argv[1])
