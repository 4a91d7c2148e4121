import torch
import torch.nn as nn
import torch_xla.core.xla_model as xm
from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel as FSDP


def build(device):
    layers = []
    for d_in, d_out in [(12, 24), (24, 24)]:
        layers += [FSDP(nn.Linear(d_in, d_out).to(device)), nn.SiLU()]
    layers.append(nn.Linear(24, 4))
    return FSDP(nn.Sequential(*layers).to(device))


def main(accumulate=2, steps=12):
    torch.manual_seed(12)
    device = xm.xla_device()
    model = build(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    opt.zero_grad(set_to_none=False)
    for step in range(steps):
        x = torch.randn(6, 12).to(device)
        y = torch.randint(0, 4, (6,)).to(device)
        loss = nn.functional.cross_entropy(model(x), y) / accumulate
        loss.backward()
        if step % accumulate == accumulate - 1:
            model.clip_grad_norm_(max_norm=1.0)
            opt.step()
            opt.zero_grad(set_to_none=False)
        xm.mark_step()
        if step % 6 == 5:
            xm.master_print(f"step {step} loss {loss.item() * accumulate:.4f}")


if __name__ == "__main__":
    main()
