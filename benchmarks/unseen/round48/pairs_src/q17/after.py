"""Vector-quantised codec for bird-song frames (VQ-VAE, two residual codebooks).

Run: XLA_HLO_DEBUG=1 XLA_IR_DEBUG=1 PJRT_DEVICE=CPU python after.py
"""
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "b.hlo")
MELS, FRAMES, WIDTH, CODE_DIM, CODES, BATCH = 10, 16, 12, 8, 14, 4
COMMITMENT = 0.25


class Quantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.codebook = nn.Embedding(CODES, CODE_DIM)
        nn.init.uniform_(self.codebook.weight, -1.0 / CODES, 1.0 / CODES)

    def forward(self, z):
        # z: [batch, frames, code_dim]
        flat = z.reshape(-1, CODE_DIM)
        dist = (
            flat.pow(2).sum(1, keepdim=True)
            - 2 * flat @ self.codebook.weight.t()
            + self.codebook.weight.pow(2).sum(1)
        )
        index = dist.argmin(dim=1)
        quantized = self.codebook(index).view_as(z)
        codebook_loss = F.mse_loss(quantized, z.detach())
        commitment_loss = F.mse_loss(z, quantized.detach())
        loss = codebook_loss + COMMITMENT * commitment_loss
        quantized = z + (quantized - z).detach()
        return quantized, loss


class Codec(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc1 = nn.Conv1d(MELS, WIDTH, 4, stride=2, padding=1)
        self.enc2 = nn.Conv1d(WIDTH, CODE_DIM, 3, padding=1)
        self.quantizers = nn.ModuleList([Quantizer(), Quantizer()])
        self.dec1 = nn.Conv1d(CODE_DIM, WIDTH, 3, padding=1)
        self.dec2 = nn.ConvTranspose1d(WIDTH, MELS, 4, stride=2, padding=1)

    def forward(self, mel):
        z = self.enc2(F.elu(self.enc1(mel))).transpose(1, 2)
        residual, total, vq_loss = z, 0.0, 0.0
        for quantizer in self.quantizers:
            q, loss = quantizer(residual)
            residual = residual - q
            total = total + q
            vq_loss = vq_loss + loss
        out = self.dec2(F.elu(self.dec1(total.transpose(1, 2))))
        return out, vq_loss


def live_tensors(model, opt, losses):
    out = list(losses)
    for p in model.parameters():
        out.append(p)
        out.append(p.grad)
        for key in ("exp_avg", "exp_avg_sq"):
            if key in opt.state[p]:
                out.append(opt.state[p][key])
    return out


def main():
    torch.manual_seed(17)
    device = torch_xla.device()
    model = Codec().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.8, 0.99))
    torch_xla.sync()
    gen = torch.Generator().manual_seed(2)
    for step in range(1, 5):
        mel = torch.randn(BATCH, MELS, FRAMES, generator=gen).to(device)
        opt.zero_grad()
        out, vq_loss = model(mel)
        recon = F.l1_loss(out, mel)
        loss = recon + vq_loss
        loss.backward()
        opt.step()
        if step == 2:
            with open(OUT, "w") as f:
                f.write(
                    torch_xla._XLAC._get_xla_tensors_hlo(
                        live_tensors(model, opt, (loss, recon, vq_loss))
                    )
                )
        torch_xla.sync()
        print(step, "%.6f" % loss.item())


if __name__ == "__main__":
    main()
