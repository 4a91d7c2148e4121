"""Online handwriting: pen strokes -> character class, LSTM written out by hand, attention pooling.

Run: PJRT_DEVICE=CPU python after.py
"""
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "b.hlo")
STEPS, FEATS, HIDDEN, CLASSES, BATCH = 6, 5, 12, 9, 8
SMOOTHING = 0.1


class LSTMLayer(nn.Module):
    def __init__(self, n_in, n_hidden):
        super().__init__()
        self.n_hidden = n_hidden
        self.w_ih = nn.Parameter(torch.randn(4 * n_hidden, n_in) * 0.2)
        self.w_hh = nn.Parameter(torch.randn(4 * n_hidden, n_hidden) * 0.2)
        self.bias = nn.Parameter(torch.zeros(4 * n_hidden))

    def cell(self, x_proj, h, c):
        gates = x_proj + h @ self.w_hh.t()
        i_gate, f_gate, g_gate, o_gate = gates.split(self.n_hidden, dim=1)
        c = torch.addcmul(
            torch.sigmoid(i_gate) * torch.tanh(g_gate), torch.sigmoid(f_gate), c
        )
        return torch.sigmoid(o_gate) * torch.tanh(c), c

    def forward(self, x):
        # the input part of all steps in one matmul
        projected = x @ self.w_ih.t() + self.bias
        h = c = x.new_zeros(x.shape[0], self.n_hidden)
        outputs = []
        for x_proj in projected.unbind(dim=1):
            h, c = self.cell(x_proj, h, c)
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
        valid = torch.arange(STEPS, device=h.device) < lengths.unsqueeze(1)
        scores = torch.where(valid, self.score(h)[..., 0], -1e9)
        weights = F.softmax(scores, dim=1)
        pooled = torch.einsum("bt,bth->bh", weights, h)
        return self.head(self.norm(pooled))


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
        logits = model(strokes, lengths)
        loss = F.cross_entropy(logits, target, label_smoothing=SMOOTHING)
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
