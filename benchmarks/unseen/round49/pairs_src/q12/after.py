"""VQ-VAE on single-lead ECG beats (1-D convolutions), Adam."""
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

dev = torch_xla.device()


class ResBlock(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.c1 = nn.Conv1d(ch, ch, 3, padding=1)
        self.c2 = nn.Conv1d(ch, ch, 1)

    def forward(self, x):
        return x + self.c2(F.relu(self.c1(F.relu(x))))


class Quantizer(nn.Module):
    def __init__(self, k=24, d=8, beta=0.25):
        super().__init__()
        self.codebook = nn.Parameter(torch.randn(k, d) * 0.3)
        self.beta = beta

    def forward(self, z):
        zt = z.transpose(1, 2)
        flat = zt.reshape(-1, zt.shape[-1])
        dist = (
            flat.pow(2).sum(1, keepdim=True)
            - 2 * flat @ self.codebook.t()
            + self.codebook.pow(2).sum(1)
        )
        idx = dist.detach().argmin(dim=1)
        onehot = F.one_hot(idx, self.codebook.shape[0]).to(flat.dtype)
        quant = (onehot @ self.codebook).view_as(zt)
        codebook_loss = F.mse_loss(quant, zt.detach())
        commit_loss = F.mse_loss(zt, quant)
        vq_loss = codebook_loss + self.beta * commit_loss
        quant = zt + (quant - zt).detach()
        usage = onehot.mean(0)
        perplexity = torch.exp(-(usage * torch.log(usage + 1e-10)).sum())
        return quant.transpose(1, 2), vq_loss, perplexity


class BeatVQ(nn.Module):
    def __init__(self, ch=12, d=8):
        super().__init__()
        self.down = nn.Conv1d(1, ch, 4, stride=2, padding=1)
        self.bn = nn.BatchNorm1d(ch)
        self.res = ResBlock(ch)
        self.to_code = nn.Conv1d(ch, d, 1)
        self.vq = Quantizer(d=d)
        self.from_code = nn.Conv1d(d, ch, 3, padding=1)
        self.res_out = ResBlock(ch)
        self.up = nn.ConvTranspose1d(ch, 1, 4, stride=2, padding=1)

    def forward(self, x):
        z = self.to_code(self.res(F.relu(self.bn(self.down(x)))))
        q, vq_loss, ppl = self.vq(z)
        return self.up(F.relu(self.res_out(self.from_code(q)))), vq_loss, ppl


def train_step(model, opt, x):
    recon, vq_loss, ppl = model(x)
    loss = F.smooth_l1_loss(recon, x) + vq_loss
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    return loss.detach(), ppl.detach()


def live(model, opt, *rest):
    out = list(rest)
    for p in model.parameters():
        out.append(p)
        if p.grad is not None:
            out.append(p.grad)
        out += [v for _, v in sorted(opt.state[p].items()) if torch.is_tensor(v) and v.device.type == "xla"]
    out += list(model.buffers())
    return out


def main(path, steps=2):
    torch.manual_seed(3)
    model = BeatVQ().to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=3e-4)
    data = [torch.randn(4, 1, 64) for _ in range(steps)]
    torch_xla.sync()
    for i, x in enumerate(data):
        x = x.to(dev)
        loss, ppl = train_step(model, opt, x)
        if i == steps - 1:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, loss, ppl)))
        torch_xla.sync()
        print(i, loss.item(), ppl.item())


if __name__ == "__main__":
    main(sys.argv[1])
