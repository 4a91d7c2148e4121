"""RNA base-pair map from a pair representation: triangle update, transition, contact head."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class TriangleMultiplication(nn.Module):
    def __init__(self, c=6, hidden=4):
        super().__init__()
        self.norm_in = nn.LayerNorm(c)
        self.proj = nn.Linear(c, 2 * hidden)
        self.gate = nn.Linear(c, 2 * hidden)
        self.norm_out = nn.LayerNorm(hidden)
        self.out = nn.Linear(hidden, c)
        self.out_gate = nn.Linear(c, c)

    def forward(self, z, mask):
        z = self.norm_in(z)
        gated = (self.proj(z) * torch.sigmoid(self.gate(z))).masked_fill(
            mask.unsqueeze(-1) == 0, 0.0)
        # channels first, so that the contraction is one batched matmul
        a, b = gated.permute(0, 3, 1, 2).chunk(2, dim=1)
        x = torch.matmul(a, b.transpose(-1, -2)).permute(0, 2, 3, 1)
        x = self.out(self.norm_out(x))
        return x * torch.sigmoid(self.out_gate(z))


class Transition(nn.Module):
    def __init__(self, c=6):
        super().__init__()
        self.norm = nn.LayerNorm(c)
        self.up = nn.Linear(c, 2 * c)
        self.down = nn.Linear(2 * c, c)

    def forward(self, z):
        return self.down(F.relu(self.up(self.norm(z))))


class PairNet(nn.Module):
    def __init__(self, n_base=5, c=6):
        super().__init__()
        self.left = nn.Embedding(n_base, c)
        self.right = nn.Embedding(n_base, c)
        self.tri = TriangleMultiplication(c)
        self.trans = Transition(c)
        self.head = nn.Linear(c, 1)

    def forward(self, seq, mask):
        z = self.left(seq).unsqueeze(2) + self.right(seq).unsqueeze(1)
        z = z + self.tri(z, mask)
        z = z + self.trans(z)
        logits = self.head(z).squeeze(-1)
        return 0.5 * (logits + logits.transpose(1, 2))


def focal_loss(logits, target, mask, alpha=0.8):
    positive = target > 0.5
    log_pt = F.logsigmoid(torch.where(positive, logits, -logits))
    miss = 1 - torch.exp(log_pt)
    at = torch.where(positive, alpha, 1 - alpha)
    loss = -at * miss.square() * log_pt
    return (loss * mask).sum() / mask.sum()


def train_step(model, opt, seq, mask, target):
    opt.zero_grad()
    loss = focal_loss(model(seq, mask), target, mask)
    loss.backward()
    opt.step()
    return loss.detach()


def live(model, opt, extra):
    ts = list(extra)
    for p in model.parameters():
        ts += [p, p.grad]
        ts += [v for v in opt.state[p].values()
               if torch.is_tensor(v) and v.device.type == "xla"]
    return ts


def main(out):
    torch.manual_seed(29)
    dev = xm.xla_device()
    model = PairNet().to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    torch_xla.sync()
    for it in range(6):
        seq = torch.randint(0, 5, (2, 7))
        valid = (torch.arange(7).unsqueeze(0) < torch.tensor([[7], [5]])).float()
        mask = (valid.unsqueeze(1) * valid.unsqueeze(2)).to(dev)
        target = torch.triu((torch.rand(2, 7, 7) < 0.2).float(), 1)
        target = (target + target.transpose(1, 2)).to(dev)
        loss = train_step(model, opt, seq.to(dev), mask, target)
        if it == 2:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, [loss]))
            open(out, "w").write(text)
        torch_xla.sync()
        print(it, loss.item())
    if len(sys.argv) > 2:
        torch.save([p.detach().cpu() for p in model.parameters()], sys.argv[2])


if __name__ == "__main__":
    main(sys.argv[1])
