import torch
import torch.nn.functional as F
import torch_xla
from transformers import DistilBertConfig, DistilBertForSequenceClassification

CFG = {
    "steps": 6,
    "batch_size": 4,
    "seq_len": 12,
    "head_only_steps": 3,
    "lr": 5e-3,
    "weight_decay": 0.01,
    "vocab": 120,
    "labels": 3,
}


def build_model(cfg):
    conf = DistilBertConfig(
        vocab_size=cfg["vocab"],
        dim=32,
        n_layers=2,
        n_heads=4,
        hidden_dim=64,
        max_position_embeddings=32,
        num_labels=cfg["labels"],
        dropout=0.0,
        attention_dropout=0.0,
        seq_classif_dropout=0.0,
        attn_implementation="eager",
    )
    return DistilBertForSequenceClassification(conf)


def set_backbone_trainable(model, flag):
    for p in model.distilbert.parameters():
        p.requires_grad_(flag)


def param_groups(model, wd):
    decay, no_decay = [], []
    for name, p in model.named_parameters():
        if p.ndim < 2 or "embeddings" in name:
            no_decay.append(p)
        else:
            decay.append(p)
    return [
        {"params": decay, "weight_decay": wd},
        {"params": no_decay, "weight_decay": 0.0},
    ]


def batches(cfg):
    g = torch.Generator().manual_seed(11)
    for _ in range(cfg["steps"]):
        ids = torch.randint(5, cfg["vocab"], (cfg["batch_size"], cfg["seq_len"]), generator=g)
        lens = torch.randint(6, cfg["seq_len"] + 1, (cfg["batch_size"],), generator=g)
        mask = (torch.arange(cfg["seq_len"])[None] < lens[:, None]).long()
        y = ids[:, 0] % cfg["labels"]
        yield {"input_ids": ids * mask, "attention_mask": mask}, y


class Finetuner:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch_xla.device()
        torch.manual_seed(0)
        self.model = build_model(cfg).to(self.device)
        self.model.train()
        self.opt = torch.optim.SGD(param_groups(self.model, cfg["weight_decay"]), lr=cfg["lr"])
        set_backbone_trainable(self.model, False)
        torch_xla.sync()

    def training_step(self, inputs, y):
        self.opt.zero_grad(set_to_none=True)
        logits = self.model(**inputs).logits
        loss = F.cross_entropy(logits, y)
        loss.backward()
        self.opt.step()
        return loss.detach(), (logits.argmax(-1) == y).float().mean().detach()

    def fit(self):
        history = []
        for step, (inputs, y) in enumerate(batches(self.cfg)):
            if step == self.cfg["head_only_steps"]:
                set_backbone_trainable(self.model, True)
            inputs = {k: v.to(self.device) for k, v in inputs.items()}
            loss, acc = self.training_step(inputs, y.to(self.device))
            torch_xla.sync()
            history.append((loss, acc))
        for i, (l, a) in enumerate(history):
            print(f"{i:3d}  loss={l.item():.4f}  acc={a.item():.2f}")


if __name__ == "__main__":
    Finetuner(CFG).fit()
