"""DeepSurv: Cox partial likelihood on a clinical table (numeric + two categoricals), RAdam.

Dumps step 5 (first argument) and step 6 (second argument) of one and the same run.
"""
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

dev = torch_xla.device()


class DeepSurv(nn.Module):
    def __init__(self, n_num=7, cards=(4, 6), hidden=16):
        super().__init__()
        self.embs = nn.ModuleList([nn.Embedding(c, 3) for c in cards])
        self.fc1 = nn.Linear(n_num + 3 * len(cards), hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.risk = nn.Linear(hidden, 1, bias=False)

    def forward(self, num, cat):
        e = [emb(cat[:, i]) for i, emb in enumerate(self.embs)]
        h = torch.cat([num] + e, dim=1)
        h = F.selu(self.fc1(h))
        h = F.selu(self.fc2(h))
        return self.risk(h).squeeze(1)


def cox_loss(log_risk, event):
    # rows come sorted by descending survival time: the risk set of row i is rows 0..i
    shift = log_risk.detach().max()
    log_cum = torch.log(torch.cumsum(torch.exp(log_risk - shift), dim=0)) + shift
    return -((log_risk - log_cum) * event).sum() / event.sum().clamp(min=1.0)


def concordance(log_risk, event):
    n = log_risk.shape[0]
    later = torch.tril(torch.ones(n, n, device=log_risk.device), diagonal=-1)
    comparable = later * event[:, None]
    right = (log_risk[:, None] > log_risk[None, :]).float()
    return (right * comparable).sum() / comparable.sum().clamp(min=1.0)


def train_step(model, opt, num, cat, event):
    log_risk = model(num, cat)
    loss = cox_loss(log_risk, event)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.detach(), concordance(log_risk.detach(), event)


def live(model, opt, *rest):
    out = list(rest)
    for p in model.parameters():
        out.append(p)
        out.append(p.grad)
        out += [v for _, v in sorted(opt.state[p].items()) if torch.is_tensor(v) and v.device.type == "xla"]
    return out


def main(path_a, path_b):
    torch.manual_seed(11)
    model = DeepSurv().to(dev)
    opt = torch.optim.RAdam(model.parameters(), lr=2e-3, weight_decay=1e-3)
    dump = {5: path_a, 6: path_b}
    torch_xla.sync()
    for step in range(1, 8):
        num = torch.randn(20, 7).to(dev)
        cat = torch.stack([torch.randint(0, 4, (20,)), torch.randint(0, 6, (20,))], 1).to(dev)
        event = (torch.rand(20) < 0.6).float().to(dev)
        loss, cidx = train_step(model, opt, num, cat, event)
        if step in dump:
            with open(dump[step], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, loss, cidx)))
        torch_xla.sync()
        print(step, loss.item(), cidx.item())


if __name__ == "__main__":
    main(*sys.argv[1:3])
