"""Recipe retrieval: ingredient list to instruction text, adapted with AdaLoRA."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from peft import AdaLoraConfig, get_peft_model

WORDS = 200
STEPS = 40
BATCH = 16


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.query, self.key = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.value, self.proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        y = self.norm1(x)
        q, k, v = (f(y).view(b, t, self.heads, -1).transpose(1, 2)
                   for f in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d)
        x = x + self.proj(y)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class RecipeEncoder(nn.Module):
    def __init__(self, dim=32, depth=1):
        super().__init__()
        self.embed = nn.Embedding(WORDS, dim)
        self.side = nn.Embedding(2, dim)
        self.blocks = nn.ModuleList(Block(dim, 4) for _ in range(depth))

    def forward(self, ids, side):
        x = self.embed(ids) + self.side.weight[side]
        for block in self.blocks:
            x = block(x)
        return F.normalize(x.mean(1), dim=-1)


def recipes(generator):
    """Ingredients and instructions of a dish draw on the same few words."""
    core = torch.randint(0, WORDS // 2, (BATCH, 4), generator=generator)
    fill = torch.randint(0, WORDS, (BATCH, 8), generator=generator)
    ingredients = torch.cat([core, fill[:, :4]], 1)
    instructions = torch.cat([core + WORDS // 2, core.flip(1), fill], 1)
    return ingredients, instructions


def contrastive(a, b, scale=12.0):
    logits = scale * a @ b.t()
    target = torch.arange(a.shape[0], device=a.device)
    return 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target))


def main():
    torch.manual_seed(20)
    generator = torch.Generator().manual_seed(20)
    device = xm.xla_device()
    config = AdaLoraConfig(
        init_r=10,
        target_r=4,
        lora_alpha=16,
        target_modules=["query", "value", "up"],
        tinit=6,
        tfinal=6,
        deltaT=1,
        orth_reg_weight=0.1,
        total_step=STEPS,
    )
    model = get_peft_model(RecipeEncoder(), config).to(device)
    model.print_trainable_parameters()
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, lr=5e-3)
    sched = torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.1, STEPS)

    for step in range(STEPS):
        ingredients, instructions = (t.to(device) for t in recipes(generator))
        loss = contrastive(model(ingredients, 0), model(instructions, 1))
        loss.backward()
        opt.step()
        sched.step()
        model.base_model.update_and_allocate(step)
        opt.zero_grad()
        torch_xla.sync()
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
