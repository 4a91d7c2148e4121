"""Speaker verification: TDNN, attentive statistics pooling, additive angular margin."""
import math
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

DEV = torch_xla.device()


class TDNNLayer(nn.Module):
    def __init__(self, c_in, c_out, k, dilation):
        super().__init__()
        self.conv = nn.Conv1d(c_in, c_out, k, dilation=dilation, bias=False)
        self.bn = nn.BatchNorm1d(c_out)

    def forward(self, x):
        return self.bn(F.relu(self.conv(x)))


class AttentiveStats(nn.Module):
    def __init__(self, ch, bottleneck):
        super().__init__()
        self.w1 = nn.Conv1d(ch, bottleneck, 1)
        self.w2 = nn.Conv1d(bottleneck, ch, 1)
        self.eps = 1e-5

    def forward(self, x):
        att = torch.softmax(self.w2(torch.tanh(self.w1(x))), dim=2)
        mean = (att * x).sum(2)
        var = (att * x * x).sum(2) - mean * mean
        std = torch.sqrt(var.abs() + self.eps)
        return torch.cat([mean, std], dim=1)


class AAMHead(nn.Module):
    def __init__(self, dim, n_spk, margin=0.2, scale=30.0):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_spk, dim))
        nn.init.xavier_normal_(self.weight)
        self.scale = scale
        self.cos_m, self.sin_m = math.cos(margin), math.sin(margin)
        self.th = math.cos(math.pi - margin)
        self.mm = math.sin(math.pi - margin) * margin

    def forward(self, emb, label):
        cos = F.linear(F.normalize(emb), F.normalize(self.weight))
        sin = torch.sqrt((1.0 - cos * cos).clamp(1e-6, 1.0))
        phi = cos * self.cos_m - sin * self.sin_m
        phi = torch.where(cos > self.th, phi, cos - self.mm)
        hot = F.one_hot(label, self.weight.size(0)).to(cos.dtype)
        logits = self.scale * (hot * phi + (1.0 - hot) * cos)
        return -(hot * F.log_softmax(logits, dim=-1)).sum(-1).mean()


class Net(nn.Module):
    def __init__(self, n_mel=10, ch=8, emb=6, n_spk=9):
        super().__init__()
        self.frame = nn.Sequential(TDNNLayer(n_mel, ch, 5, 1), TDNNLayer(ch, ch, 3, 2))
        self.pool = AttentiveStats(ch, 4)
        self.fc = nn.Linear(2 * ch, emb)
        self.head = AAMHead(emb, n_spk)

    def forward(self, x, label):
        x = x - x.mean(dim=2, keepdim=True)
        return self.head(self.fc(self.pool(self.frame(x))), label)


def main(out):
    torch.manual_seed(2)
    gen = torch.Generator().manual_seed(13)
    net = Net().to(DEV)
    decay = [p for p in net.parameters() if p.ndim > 1]
    plain = [p for p in net.parameters() if p.ndim <= 1]
    opt = torch.optim.SGD(
        [{"params": decay, "weight_decay": 2e-5}, {"params": plain}],
        lr=0.05, momentum=0.9, nesterov=True,
    )
    for step in range(4):
        x = torch.randn(6, 10, 24, generator=gen).to(DEV)
        label = torch.randint(0, 9, (6,), generator=gen).to(DEV)
        torch_xla.sync()
        loss = net(x, label)
        opt.zero_grad()
        loss.backward()
        gnorm = torch.nn.utils.clip_grad_norm_(net.parameters(), 3.0)
        opt.step()
        if step == 3:
            live = [loss.detach(), gnorm]
            for p in net.parameters():
                live += [p, p.grad, opt.state[p]["momentum_buffer"]]
            live += list(net.buffers())
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item(), gnorm.item())


if __name__ == "__main__":
    main(sys.argv[1])
