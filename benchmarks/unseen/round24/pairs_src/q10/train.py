"""Character LM over several parallel streams, truncated BPTT."""
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch import nn, optim

hp = {
    "streams": 6,
    "bptt": 5,
    "chunks_per_epoch": 3,
    "epochs": 3,
    "d_model": 20,
    "alphabet": 18,
    "lr": 4e-3,
    "act_reg": 0.02,
}


class PeepholeCell(nn.Module):
    def __init__(self, n_in, n_hid):
        super().__init__()
        self.ih = nn.Linear(n_in, 4 * n_hid)
        self.hh = nn.Linear(n_hid, 4 * n_hid, bias=False)
        self.peep = nn.Parameter(torch.randn(3, n_hid) * 0.05)

    def forward(self, x, h, c):
        i, f, g, o = (self.ih(x) + self.hh(h)).chunk(4, dim=-1)
        i = torch.sigmoid(i + self.peep[0] * c)
        f = torch.sigmoid(f + self.peep[1] * c)
        c = f * c + i * torch.tanh(g)
        o = torch.sigmoid(o + self.peep[2] * c)
        return o * torch.tanh(c), c


class CharLM(nn.Module):
    def __init__(self, hp):
        super().__init__()
        d = hp["d_model"]
        self.tok = nn.Embedding(hp["alphabet"], d)
        self.cell = PeepholeCell(d, d)
        self.ln = nn.LayerNorm(d)
        self.bias = nn.Parameter(torch.zeros(hp["alphabet"]))

    def initial_state(self, n):
        w = self.tok.weight
        return w.new_zeros(n, w.size(1)), w.new_zeros(n, w.size(1))

    def forward(self, ids, state=None):
        h, c = self.initial_state(ids.size(0)) if state is None else state
        outs = []
        for x in self.tok(ids).unbind(1):
            h, c = self.cell(x, h, c)
            outs.append(h)
        y = torch.stack(outs, 1)
        return self.ln(y) @ self.tok.weight.t() + self.bias, y, (h, c)


def detach(state):
    return None if state is None else tuple(s.detach() for s in state)


def streams(hp, generator):
    n = hp["bptt"] * hp["chunks_per_epoch"] + 1
    base = torch.randint(0, hp["alphabet"], (hp["streams"], 1), generator=generator)
    return (base + torch.arange(n)[None] * 5) % hp["alphabet"]


def chunks(text, bptt):
    for s in range(0, text.size(1) - 1, bptt):
        yield text[:, s : s + bptt].contiguous(), text[:, s + 1 : s + 1 + bptt].contiguous()


def train(hp):
    torch.manual_seed(42)
    generator = torch.Generator().manual_seed(42)
    dev = torch_xla.device()
    lm = CharLM(hp).to(dev)
    opt = optim.RMSprop(lm.parameters(), lr=hp["lr"], alpha=0.9)
    xent = nn.CrossEntropyLoss()
    torch_xla.sync()

    for epoch in range(hp["epochs"]):
        text = streams(hp, generator)
        state = None
        for ids, nxt in chunks(text, hp["bptt"]):
            ids, nxt = ids.to(dev), nxt.to(dev)
            opt.zero_grad()
            logits, acts, state = lm(ids, detach(state))
            loss = xent(logits.reshape(-1, hp["alphabet"]), nxt.reshape(-1))
            (loss + hp["act_reg"] * acts.square().mean()).backward()
            opt.step()
            torch_xla.sync()
            print(epoch, f"{loss.item():.3f}")


if __name__ == "__main__":
    train(hp)
