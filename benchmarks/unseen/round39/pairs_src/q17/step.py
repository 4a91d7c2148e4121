"""Radar nowcasting: ConvLSTM encoder/forecaster with a rain-weighted loss, RAdam."""
import os
import sys
import torch
import torch.nn as nn
import torch_xla

HID, T_IN, T_OUT = 6, 2, 2


class ConvLSTMCell(nn.Module):
    def __init__(self, cin, hid):
        super().__init__()
        self.gates = nn.Conv2d(cin + hid, 4 * hid, 3, padding=1)
        self.peep = nn.Parameter(torch.zeros(3, hid, 1, 1))

    def forward(self, x, state):
        h, c = state
        i, f, o, g = self.gates(torch.cat([x, h], 1)).chunk(4, 1)
        i = torch.sigmoid(i + self.peep[0] * c)
        f = torch.sigmoid(f + 1.0 + self.peep[1] * c)
        c = f * c + i * torch.tanh(g)
        o = torch.sigmoid(o + self.peep[2] * c)
        return o * torch.tanh(c), c


class Nowcaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, 2, 1)
        self.enc = ConvLSTMCell(4, HID)
        self.dec = ConvLSTMCell(4, HID)
        self.up = nn.ConvTranspose2d(HID, 1, 4, 2, 1)

    def forward(self, frames):
        b, _, hgt, wid = frames.shape
        h = frames.new_zeros(b, HID, hgt // 2, wid // 2)
        state = (h, h)
        for t in range(T_IN):
            x = nn.functional.leaky_relu(self.stem(frames[:, t:t + 1]), 0.2)
            state = self.enc(x, state)
        outs, last = [], frames[:, -1:]
        for _ in range(T_OUT):
            x = nn.functional.leaky_relu(self.stem(last), 0.2)
            state = self.dec(x, state)
            last = last + self.up(state[0])
            outs.append(last)
        return torch.cat(outs, 1)


def rain_weight(y):
    w = torch.ones_like(y)
    for thr, val in ((0.3, 2.0), (0.6, 5.0)):
        w = torch.where(y >= thr, torch.full_like(y, val), w)
    return w


def train_step(model, opt, past, future):
    pred = model(past)
    w = rain_weight(future)
    err = pred - future
    loss = (w * err ** 2).mean() + 0.1 * (w * err.abs()).mean()
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    opt.zero_grad(set_to_none=True)
    return loss.detach()


def main(outdir):
    torch.manual_seed(13)
    dev = torch_xla.device()
    model = Nowcaster().to(dev)
    opt = torch.optim.RAdam(model.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(6)
    for step in range(1, 8):
        seq = torch.rand(2, T_IN + T_OUT, 8, 8, generator=g)
        past, future = seq[:, :T_IN].contiguous().to(dev), seq[:, T_IN:].contiguous().to(dev)
        loss = train_step(model, opt, past, future)
        if step in (5, 6):
            live = [loss]
            for p in model.parameters():
                live += [p, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
            with open(os.path.join(outdir, "a.hlo" if step == 5 else "b.hlo"), "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item())


main(sys.argv[1])
