"""Adapt a frozen MLP-Mixer to a new domain with AdaLoRA adapters."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from peft import AdaLoraConfig, get_peft_model

TOTAL, WARMUP, FINAL = 20, 3, 4


class MixerBlock(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.token_in, self.token_out = nn.Linear(tokens, 2 * tokens), nn.Linear(2 * tokens, tokens)
        self.chan_in, self.chan_out = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        h = self.norm1(x).transpose(1, 2)
        x = x + self.token_out(F.gelu(self.token_in(h))).transpose(1, 2)
        return x + self.chan_out(F.gelu(self.chan_in(self.norm2(x))))


class Mixer(nn.Module):
    def __init__(self, size=16, patch=4, dim=32, depth=2, classes=5):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, dim, patch, patch)
        self.blocks = nn.Sequential(*[MixerBlock((size // patch) ** 2, dim) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.classifier = nn.Linear(dim, classes)

    def forward(self, pixel_values):
        x = self.patch_embed(pixel_values).flatten(2).transpose(1, 2)
        return self.classifier(self.norm(self.blocks(x)).mean(1))


class Textures(torch.utils.data.Dataset):
    """Stripes in five orientations with colour jitter."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, 5, (n,), generator=g)
        yy, xx = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
        ang = self.y.float()[:, None, None] * torch.pi / 5
        wave = torch.sin((xx * ang.cos() + yy * ang.sin()) * 1.3)
        tint = 0.5 + torch.rand(n, 3, 1, 1, generator=g)
        self.x = wave[:, None] * tint + 0.2 * torch.randn(n, 3, 16, 16, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def build_model(device):
    base = Mixer()
    config = AdaLoraConfig(
        init_r=10,
        target_r=2,
        tinit=WARMUP,
        tfinal=FINAL,
        deltaT=1,
        beta1=0.85,
        beta2=0.85,
        total_step=TOTAL,
        lora_alpha=12,
        target_modules=["chan_in"],
        modules_to_save=["classifier"],
    )
    return get_peft_model(base, config).to(device)


def orthogonality(model):
    reg, count = 0.0, 0
    for name, p in model.named_parameters():
        if "lora_A" in name or "lora_B" in name:
            cov = p @ p.T if "lora_A" in name else p.T @ p
            reg = reg + torch.norm(cov - torch.eye(cov.size(0), device=cov.device))
            count += 1
    return reg / count


def main():
    torch.manual_seed(4)
    device = torch_xla.device()
    model = build_model(device)
    model.print_trainable_parameters()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    loader = torch.utils.data.DataLoader(Textures(16 * TOTAL, 0), batch_size=16, shuffle=True, drop_last=True)
    torch_xla.sync()

    model.train()
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        logits = model(x)
        task_loss = F.cross_entropy(logits, y)
        loss = task_loss + 0.1 * orthogonality(model)
        loss.backward()
        optimizer.step()
        model.base_model.update_and_allocate(step)
        optimizer.zero_grad()
        torch_xla.sync()
        if step % 6 == 0:
            acc = (logits.argmax(-1) == y).float().mean()
            print(f"step {step} loss {task_loss.item():.3f} acc {acc.item():.2f}")

    ranks = {n.split(".lora_E")[0].split("model.")[-1]: int((p != 0).sum()) for n, p in model.cpu().named_parameters() if "lora_E" in n}
    print("final ranks", ranks)


if __name__ == "__main__":
    main()
