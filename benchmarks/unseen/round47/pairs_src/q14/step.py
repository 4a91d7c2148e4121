"""Speech enhancement: mask estimator over learned filter banks, SI-SNR loss, RAdam.

Writes the graph of two consecutive training steps of the same run.
"""
import os

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = {4: "a.hlo", 5: "b.hlo"}


class MaskNet(nn.Module):
    def __init__(self, filters=12, kernel=16):
        super().__init__()
        self.encoder = nn.Conv1d(1, filters, kernel, stride=kernel // 2, bias=False)
        self.mix1 = nn.Conv1d(filters, filters, 3, padding=1)
        self.mix2 = nn.Conv1d(filters, filters, 3, padding=2, dilation=2)
        self.act = nn.PReLU()
        self.mask = nn.Conv1d(filters, filters, 1)
        self.decoder = nn.ConvTranspose1d(filters, 1, kernel, stride=kernel // 2, bias=False)

    def forward(self, noisy):
        feats = torch.relu(self.encoder(noisy.unsqueeze(1)))
        h = self.act(self.mix1(feats))
        h = h + self.act(self.mix2(h))
        mask = torch.sigmoid(self.mask(h))
        return self.decoder(feats * mask).squeeze(1)


def si_snr(est, ref, eps=1e-8):
    est = est - est.mean(dim=-1, keepdim=True)
    ref = ref - ref.mean(dim=-1, keepdim=True)
    scale = (est * ref).sum(-1, keepdim=True) / (ref.square().sum(-1, keepdim=True) + eps)
    proj = scale * ref
    noise = est - proj
    ratio = proj.square().sum(-1) / (noise.square().sum(-1) + eps)
    return 10.0 * torch.log10(ratio + eps)


def train_step(net, opt, noisy, clean):
    opt.zero_grad()
    est = net(noisy)
    loss = -si_snr(est, clean).mean() + 0.1 * (est - clean).abs().mean()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 5.0)
    opt.step()
    return loss


def live_tensors(net, opt, loss):
    out = [loss]
    for p in net.parameters():
        out += [p, p.grad]
    for p in net.parameters():
        state = opt.state[p]
        out += [state["exp_avg"], state["exp_avg_sq"]]
    return out


def main():
    torch.manual_seed(14)
    dev = xm.xla_device()
    net = MaskNet().to(dev)
    opt = torch.optim.RAdam(net.parameters(), lr=1e-3, weight_decay=1e-5)
    for it in range(7):
        clean = torch.randn(4, 128)
        noisy = (clean + 0.5 * torch.randn(4, 128)).to(dev)
        clean = clean.to(dev)
        loss = train_step(net, opt, noisy, clean)
        if it in STEPS:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(net, opt, loss))
            with open(os.path.join(HERE, STEPS[it]), "w") as f:
                f.write(text)
        xm.mark_step()
        print(it, loss.item())


if __name__ == "__main__":
    main()
