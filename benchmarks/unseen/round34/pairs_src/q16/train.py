"""Keystroke-sequence model: stateful LSTM over long sessions, trained by truncated backpropagation.

The token table comes from an earlier run and is held fixed while the rest settles.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, EMB, HID, BPTT, BATCH = 30, 10, 12, 4, 6


class KeyLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCAB, EMB)
        self.lstm = nn.LSTM(EMB + 1, HID)
        self.out = nn.Linear(HID, EMB)
        self.gap = nn.Linear(HID, 1)

    def forward(self, keys, gaps, state=None):
        x = torch.cat([self.table(keys), torch.log1p(gaps).unsqueeze(-1)], dim=-1)
        h, state = self.lstm(x, state)
        return self.out(h) @ self.table.weight.t(), self.gap(h).squeeze(-1), state


def sessions(length):
    g = torch.Generator().manual_seed(21)
    keys = torch.randint(0, VOCAB, (length, BATCH), generator=g)
    keys[1::2] = (keys[::2][: keys[1::2].shape[0]] * 7 + 3) % VOCAB
    return keys, torch.rand(length, BATCH, generator=g) * 2


def run(epochs=2, warm_epochs=1):
    torch.manual_seed(2)
    device = xm.xla_device()
    model = KeyLSTM()
    pretrained = 0.3 * torch.randn(VOCAB, EMB)
    model.table.weight.data.copy_(pretrained)
    model.table.weight.requires_grad_(warm_epochs == 0)
    model = model.to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.02, initial_accumulator_value=0.1)
    for group in opt.param_groups:
        for p in group["params"]:
            opt.state[p]["sum"] = opt.state[p]["sum"].to(device)
    keys, gaps = sessions(4 * BPTT + 1)
    torch_xla.sync()

    for epoch in range(epochs):
        if epoch == warm_epochs:
            model.table.weight.requires_grad_(True)
        state = None
        curve = []
        for i in range(0, keys.shape[0] - 1, BPTT):
            src = keys[i:i + BPTT].to(device)
            dst = keys[i + 1:i + 1 + BPTT].to(device)
            dt = gaps[i:i + BPTT].to(device)
            dt_next = gaps[i + 1:i + 1 + BPTT].to(device)
            if state is not None:
                state = tuple(s.detach() for s in state)
            logits, gap, state = model(src, dt, state)
            loss = F.cross_entropy(logits.flatten(0, 1), dst.flatten())
            loss = loss + 0.1 * F.smooth_l1_loss(gap, torch.log1p(dt_next))
            opt.zero_grad()
            loss.backward()
            opt.step()
            curve.append(loss.detach())
            torch_xla.sync()
        print(epoch, [round(l.item(), 4) for l in curve])


if __name__ == "__main__":
    run()
