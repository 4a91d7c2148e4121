"""One frozen tiny ViT, one LoRA adapter per task; the tasks take turns, each with its own accumulation window."""
import timm
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from peft import LoraConfig, get_peft_model
from torchmetrics.classification import MulticlassAccuracy

TASKS = {"shape": 4, "colour": 3}
CFG = {"img": 16, "patch": 8, "dim": 16, "depth": 2, "heads": 2, "bs": 8, "rank": 2,
       "accum": 2, "rounds": 14, "eval_every": 2, "lr": 5e-3}


def build():
    vit = timm.models.vision_transformer.VisionTransformer(
        img_size=CFG["img"], patch_size=CFG["patch"], embed_dim=CFG["dim"], depth=CFG["depth"],
        num_heads=CFG["heads"], mlp_ratio=2, num_classes=0)
    lora = lambda: LoraConfig(r=CFG["rank"], lora_alpha=4, target_modules=["qkv", "proj"], lora_dropout=0.0)
    names = list(TASKS)
    model = get_peft_model(vit, lora(), adapter_name=names[0])
    for n in names[1:]:
        model.add_adapter(n, lora())
    heads = nn.ModuleDict({n: nn.Linear(CFG["dim"], k) for n, k in TASKS.items()})
    return model, heads


class Scenes:
    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.proto = {n: torch.randn(k, 3, CFG["img"], CFG["img"], generator=torch.Generator().manual_seed(i))
                      for i, (n, k) in enumerate(TASKS.items())}

    def batch(self, task):
        y = torch.randint(0, TASKS[task], (CFG["bs"],), generator=self.g)
        x = self.proto[task][y] + 0.5 * torch.randn(CFG["bs"], 3, CFG["img"], CFG["img"], generator=self.g)
        return x, y


def params_of(model, heads, task):
    return [p for n, p in model.named_parameters() if f".{task}." in n] + list(heads[task].parameters())


def train_task(model, heads, task, opt, data, dev):
    model.set_adapter(task)
    model.train()
    for _ in range(CFG["accum"]):
        x, y = data.batch(task)
        loss = F.cross_entropy(heads[task](model(x.to(dev))), y.to(dev)) / CFG["accum"]
        loss.backward()
        torch_xla.sync()
    opt.step()
    for group in opt.param_groups:
        for p in group["params"]:
            p.grad.zero_()
    torch_xla.sync()
    return loss.detach()


@torch.no_grad()
def eval_task(model, heads, task, data, metric, dev, batches=2):
    model.set_adapter(task)
    model.eval()
    for _ in range(batches):
        x, y = data.batch(task)
        logits = heads[task](model(x.to(dev)))
        torch_xla.sync()
        metric.update(logits.cpu(), y)
    acc = metric.compute().item()
    metric.reset()
    return acc


def main():
    torch.manual_seed(0)
    dev = torch_xla.device()
    model, heads = build()
    model, heads = model.to(dev), heads.to(dev)
    opts = {t: torch.optim.AdamW(params_of(model, heads, t), lr=CFG["lr"]) for t in TASKS}
    for opt in opts.values():
        for p in opt.param_groups[0]["params"]:
            p.grad = torch.zeros_like(p)
    torch_xla.sync()
    train, val = Scenes(10), Scenes(11)
    metrics = {t: MulticlassAccuracy(num_classes=k) for t, k in TASKS.items()}
    for r in range(1, CFG["rounds"] + 1):
        for task in TASKS:
            loss = train_task(model, heads, task, opts[task], train, dev)
        if r % CFG["eval_every"] == 0:
            scores = {t: eval_task(model, heads, t, val, metrics[t], dev) for t in TASKS}
            print(r, f"loss {loss.item():.3f}", {t: round(s, 3) for t, s in scores.items()})


if __name__ == "__main__":
    main()
