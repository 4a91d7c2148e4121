import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

DEVICE = torch_xla.device()

N_BANDS = 20
N_ATOMS = 32
N_UNROLL = 4
BATCH = 8
STEPS = 6


class UnrolledISTA(nn.Module):
    """LISTA for unmixing Raman spectra over a learned dictionary of pure lines."""

    def __init__(self):
        super().__init__()
        dictionary = F.normalize(torch.randn(N_BANDS, N_ATOMS), dim=0)
        self.decode = nn.Parameter(dictionary.clone())
        self.w_in = nn.ParameterList([nn.Parameter(dictionary.t().clone() * 0.4) for _ in range(N_UNROLL)])
        self.w_rec = nn.ParameterList(
            [nn.Parameter(torch.eye(N_ATOMS) - 0.4 * dictionary.t() @ dictionary) for _ in range(N_UNROLL)]
        )
        self.gain = nn.Parameter(torch.ones(N_ATOMS))

    def forward(self, y, lam=0.1):
        x = F.softshrink(y @ self.w_in[0].t(), lam)
        for k in range(1, N_UNROLL):
            x = F.softshrink(x @ self.w_rec[k].t() + y @ self.w_in[k].t(), lam)
        x = x * self.gain
        return x, x @ self.decode.t()


class Continuation:
    """Moves a scalar geometrically from its start to its target, one notch an epoch."""

    def __init__(self, start, end, factor):
        self.value, self.end, self.factor = start, end, factor

    def step(self):
        self.value = max(self.end, self.value * self.factor)


def lp_penalty(code, p, eps=1e-4):
    return (code.abs() + eps).pow(p).mean()


def spectra(gen):
    peaks = torch.randint(0, N_BANDS, (BATCH, 3), generator=gen)
    grid = torch.arange(N_BANDS).view(1, 1, -1)
    line = torch.exp(-0.5 * ((grid - peaks.unsqueeze(-1)) / 1.5) ** 2)
    amp = torch.rand(BATCH, 3, 1, generator=gen)
    clean = (amp * line).sum(1)
    noisy = clean + 0.02 * torch.randn(BATCH, N_BANDS, generator=gen)
    return noisy.to(DEVICE), clean.to(DEVICE)


def main():
    torch.manual_seed(3)
    gen = torch.Generator().manual_seed(5)
    model = UnrolledISTA().to(DEVICE)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    cont = Continuation(start=0.9, end=0.5, factor=0.85)
    torch_xla.sync()

    for epoch in range(3):
        for _ in range(STEPS // 2):
            noisy, clean = spectra(gen)
            code, recon = model(noisy)
            fit = F.mse_loss(recon, clean)
            sparsity = lp_penalty(code, cont.value)
            smooth = (recon[:, 1:] - recon[:, :-1]).pow(2).mean()
            loss = fit + 0.01 * sparsity + 0.05 * smooth
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            with torch.no_grad():
                model.decode.div_(model.decode.norm(dim=0, keepdim=True).clamp_min(1e-6))
            torch_xla.sync()
        cont.step()
        print(f"epoch {epoch} fit {fit.item():.5f}")


if __name__ == "__main__":
    main()
