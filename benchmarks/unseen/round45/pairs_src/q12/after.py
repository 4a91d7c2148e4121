"""VQ-VAE over single-lead ECG windows (1-d conv encoder, learned codebook, straight-through)."""
import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OUT = sys.argv[1]
B, L, CODES, DIM = 4, 64, 16, 8
BETA = 0.25
CLIP_VALUE = 0.5


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv1d(1, 6, 5, stride=2, padding=2)
        self.c2 = nn.Conv1d(6, 10, 5, stride=2, padding=2)
        self.gn = nn.GroupNorm(2, 10)
        self.proj = nn.Conv1d(10, DIM, 1)

    def forward(self, x):
        h = F.leaky_relu(self.c1(x), 0.1)
        h = F.leaky_relu(self.gn(self.c2(h)), 0.1)
        return self.proj(h)


class Quantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.codebook = nn.Parameter(torch.randn(CODES, DIM) * 0.3)

    def forward(self, z):
        flat = z.permute(0, 2, 1).reshape(-1, DIM)
        d = (
            flat.pow(2).sum(1, keepdim=True)
            - 2 * flat @ self.codebook.t()
            + self.codebook.pow(2).sum(1)
        )
        idx = d.argmin(dim=1)
        q = self.codebook[idx].view(z.size(0), -1, DIM).permute(0, 2, 1)
        codebook_loss = F.mse_loss(q, z)
        commit_loss = F.mse_loss(z, q.detach())
        probs = F.one_hot(idx, CODES).float().mean(0)
        perplexity = torch.exp(-(probs * torch.log(probs + 1e-10)).sum())
        q = z + (q - z).detach()
        return q, codebook_loss + BETA * commit_loss, perplexity


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.t1 = nn.ConvTranspose1d(DIM, 10, 4, stride=2, padding=1)
        self.t2 = nn.ConvTranspose1d(10, 6, 4, stride=2, padding=1)
        self.out = nn.Conv1d(6, 1, 3, padding=1)

    def forward(self, q):
        h = F.leaky_relu(self.t1(q), 0.1)
        h = F.leaky_relu(self.t2(h), 0.1)
        return self.out(h)


class ECGVQVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.vq, self.dec = Encoder(), Quantizer(), Decoder()

    def forward(self, x):
        q, vq_loss, ppl = self.vq(self.enc(x))
        return self.dec(q), vq_loss, ppl


def train_step(model, opt, x):
    opt.zero_grad(set_to_none=True)
    rec, vq_loss, ppl = model(x)
    rec_loss = F.smooth_l1_loss(rec, x, beta=0.5)
    loss = rec_loss + vq_loss
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), CLIP_VALUE, foreach=False)
    opt.step()
    return loss.detach(), rec_loss.detach(), ppl.detach()


def live(model, opt, metrics):
    out = list(metrics)
    for p in model.parameters():
        out += [p, p.grad]
    for p in model.parameters():
        st = opt.state[p]
        out += [st[k] for k in sorted(st) if torch.is_tensor(st[k]) and st[k].device.type == "xla"]
    return out


def main():
    torch.manual_seed(3)
    dev = torch_xla.device()
    model = ECGVQVAE().to(dev)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.95, momentum=0.9)
    t = torch.linspace(0, 6.28, L)
    for it in range(3):
        x = torch.stack([torch.sin((b + 1.5) * t + it) + 0.1 * torch.randn(L) for b in range(B)])
        metrics = train_step(model, opt, x.unsqueeze(1).to(dev))
        if it == 2:
            with open(OUT, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, metrics)))
        torch_xla.sync()
        print(it, [m.item() for m in metrics])


if __name__ == "__main__":
    main()
