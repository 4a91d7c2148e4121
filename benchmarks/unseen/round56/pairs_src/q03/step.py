"""Acoustic VAE for a TTS front: mel -> frame latents -> mel, text-conditioned prior."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class WN(nn.Module):
    """Dilated gated convolutions with a skip path."""

    def __init__(self, ch, layers, k=3):
        super().__init__()
        self.ch = ch
        self.ins = nn.ModuleList(nn.Conv1d(ch, 2 * ch, k, dilation=2 ** i, padding=(k - 1) * 2 ** i // 2) for i in range(layers))
        self.res = nn.ModuleList(nn.Conv1d(ch, 2 * ch if i < layers - 1 else ch, 1) for i in range(layers))

    def forward(self, x, mask):
        out = 0
        for i, (conv, res) in enumerate(zip(self.ins, self.res)):
            a, b = conv(x).chunk(2, 1)
            rs = res(torch.tanh(a) * torch.sigmoid(b))
            if i < len(self.ins) - 1:
                r, s = rs.chunk(2, 1)
                x = (x + r) * mask
                out = out + s
            else:
                out = out + rs
        return out * mask


class AcousticVAE(nn.Module):
    def __init__(self, n_mels=20, vocab=40, ch=16, z=8):
        super().__init__()
        self.enc_in = nn.Conv1d(n_mels, ch, 1)
        self.enc = WN(ch, 2)
        self.enc_out = nn.Conv1d(ch, 2 * z, 1)
        self.text = nn.Embedding(vocab, ch)
        self.prior = WN(ch, 1)
        self.prior_out = nn.Conv1d(ch, 2 * z, 1)
        self.dec_in = nn.Conv1d(z, ch, 1)
        self.dec = WN(ch, 2)
        self.dec_out = nn.Conv1d(ch, n_mels, 1)

    def forward(self, mel, phones, eps, mask):
        m_q, s_q = self.enc_out(self.enc(self.enc_in(mel) * mask, mask)).chunk(2, 1)
        m_p, s_p = self.prior_out(self.prior(self.text(phones).transpose(1, 2) * mask, mask)).chunk(2, 1)
        z = (m_q + eps * s_q.exp()) * mask
        rec = self.dec_out(self.dec(self.dec_in(z) * mask, mask))
        return rec, m_q, s_q, m_p, s_p


def kl_frames(m_q, s_q, m_p, s_p):
    return s_p - s_q - 0.5 + 0.5 * ((m_q - m_p) ** 2 + (2 * s_q).exp()) * (-2 * s_p).exp()


def masked_mean(x, mask):
    return (x * mask).sum() / (mask.sum() * x.shape[1])


class Trainer:
    def __init__(self, model, lr=5e-3, kl_warmup=7, free_bits=0.02):
        self.model = model
        self.opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.kl_warmup = kl_warmup
        self.free_bits = free_bits
        self.global_step = 0

    def kl_weight(self):
        return min(1.0, (self.global_step + 1) / self.kl_warmup)

    def training_step(self, mel, phones, eps, mask):
        rec, *stats = self.model(mel, phones, eps, mask)
        loss_mel = masked_mean((rec - mel).abs(), mask)
        loss_kl = masked_mean(kl_frames(*stats).clamp(min=self.free_bits), mask)
        loss = loss_mel + self.kl_weight() * loss_kl
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.opt.step()
        self.global_step += 1
        return loss.detach()


def collate(gen, bs=3, t=48, n_mels=20, vocab=40, z=8):
    mel = torch.randn(bs, n_mels, t, generator=gen)
    phones = torch.randint(0, vocab, (bs, t), generator=gen)
    eps = torch.randn(bs, z, t, generator=gen)
    lens = torch.randint(t // 2, t + 1, (bs, 1), generator=gen)
    mask = (torch.arange(t)[None] < lens).float()[:, None]
    return mel, phones, eps, mask


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(5)
    device = torch_xla.device()
    trainer = Trainer(AcousticVAE().to(device))
    running = torch.zeros((), device=device)
    for it in range(9):
        batch = [b.to(device) for b in collate(gen)]
        running = 0.9 * running + 0.1 * trainer.training_step(*batch)
        torch_xla.sync()
    print(running.item())


if __name__ == "__main__":
    main()
