"""Online handwriting: pen strokes -> character class, LSTM written out by hand, attention pooling.

Run: PJRT_DEVICE=CPU python before.py
"""
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "a.hlo")
STEPS, FEATS, HIDDEN, CLASSES, BATCH = 6, 5, 12, 9, 8
SMOOTHING = 0.1


class LSTMLayer(nn.Module):
    def __init__(self, n_in, n_hidden):
        super().__init__()
        self.n_hidden = n_hidden
        self.w_ih = nn.Parameter(torch.randn(4 * n_hidden, n_in) * 0.2)
        self.w_hh = nn.Parameter(torch.randn(4 * n_hidden, n_hidden) * 0.2)
        self.bias = nn.Parameter(torch.zeros(4 * n_hidden))

    def forward(self, x):
        b, t, _ = x.shape
        h = x.new_zeros(b, self.n_hidden)
        c = x.new_zeros(b, self.n_hidden)
        outputs = []
        for i in range(t):
            gates = F.linear(x[:, i], self.w_ih, self.bias) + F.linear(h, self.w_hh)
            i_gate, f_gate, g_gate, o_gate = gates.chunk(4, dim=1)
            c = torch.sigmoid(f_gate) * c + torch.sigmoid(i_gate) * torch.tanh(g_gate)
            h = torch.sigmoid(o_gate) * torch.tanh(c)
            outputs.append(h)
        return torch.stack(outputs, dim=1)


class StrokeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(FEATS, HIDDEN)
        self.lstm = LSTMLayer(HIDDEN, HIDDEN)
        self.score = nn.Linear(HIDDEN, 1, bias=False)
        self.norm = nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, CLASSES)

    def forward(self, strokes, lengths):
        h = self.lstm(torch.tanh(self.embed(strokes)))
        scores = self.score(h).squeeze(-1)
        pad = torch.arange(STEPS, device=h.device)[None, :] >= lengths[:, None]
        scores = scores.masked_fill(pad, -1e9)
        weights = F.softmax(scores, dim=1)
        pooled = (weights.unsqueeze(-1) * h).sum(dim=1)
        return self.head(self.norm(pooled))


def smoothed_loss(logits, target):
    logp = F.log_softmax(logits, dim=-1)
    soft = torch.full_like(logp, SMOOTHING / CLASSES)
    soft.scatter_(1, target.unsqueeze(1), 1.0 - SMOOTHING + SMOOTHING / CLASSES)
    return -(soft * logp).sum(dim=-1).mean()


def live_tensors(model, opt, loss):
    out = [loss]
    for p in model.parameters():
        out.extend([p, p.grad])
        for key in ("exp_avg", "exp_avg_sq"):
            if key in opt.state[p]:
                out.append(opt.state[p][key])
    return out


def main():
    torch.manual_seed(13)
    device = torch_xla.device()
    model = StrokeNet().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    torch_xla.sync()
    gen = torch.Generator().manual_seed(3)
    for step in range(1, 6):
        strokes = torch.randn(BATCH, STEPS, FEATS, generator=gen).to(device)
        lengths = torch.randint(2, STEPS + 1, (BATCH,), generator=gen).to(device)
        target = torch.randint(0, CLASSES, (BATCH,), generator=gen).to(device)
        opt.zero_grad()
        loss = smoothed_loss(model(strokes, lengths), target)
        loss.backward()
        opt.step()
        if step == 2:
            with open(OUT, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(model, opt, loss)))
        torch_xla.sync()
        print(step, "%.7f" % loss.item())
    print("params", "%.6f" % sum(p.abs().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
