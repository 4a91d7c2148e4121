"""Intent classification for a support desk: AdaLoRA adapters on a small BERT-style encoder."""
from dataclasses import dataclass

import torch
import torch_xla
from peft import AdaLoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup


@dataclass
class FinetuneConfig:
    vocab: int = 120
    hidden: int = 32
    layers: int = 1
    length: int = 16
    intents: int = 5
    batch: int = 16
    steps: int = 30
    warmup: int = 3
    lr: float = 5e-3
    init_r: int = 8
    target_r: int = 2
    rank_warmup: int = 3
    rank_every: int = 1
    rank_final: int = 11
    seed: int = 20


def build_model(cfg):
    base = BertForSequenceClassification(BertConfig(
        vocab_size=cfg.vocab, hidden_size=cfg.hidden, num_hidden_layers=cfg.layers,
        num_attention_heads=2, intermediate_size=2 * cfg.hidden,
        max_position_embeddings=cfg.length, num_labels=cfg.intents,
        hidden_act="relu", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    ))
    adapter = AdaLoraConfig(
        task_type=TaskType.SEQ_CLS,
        target_modules=["query", "value"],
        init_r=cfg.init_r,
        target_r=cfg.target_r,
        lora_alpha=16,
        tinit=cfg.rank_warmup,
        deltaT=cfg.rank_every,
        tfinal=cfg.rank_final,
        total_step=cfg.steps,
        orth_reg_weight=0.1,
    )
    return get_peft_model(base, adapter)


def tickets(cfg, n, seed):
    """Token ids in which every intent prefers its own slice of the vocabulary."""
    gen = torch.Generator().manual_seed(seed)
    intent = torch.randint(0, cfg.intents, (n,), generator=gen)
    block = cfg.vocab // cfg.intents
    own = intent.unsqueeze(1) * block + torch.randint(0, block, (n, cfg.length), generator=gen)
    other = torch.randint(0, cfg.vocab, (n, cfg.length), generator=gen)
    ids = torch.where(torch.rand(n, cfg.length, generator=gen) < 0.5, own, other)
    return TensorDataset(ids, intent)


def finetune(model, data, cfg, device):
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(params, lr=cfg.lr)
    schedule = get_linear_schedule_with_warmup(optimizer, cfg.warmup, cfg.steps)
    model.train()
    for step, (ids, intent) in enumerate(data, start=1):
        out = model(input_ids=ids.to(device), labels=intent.to(device))
        out.loss.backward()
        optimizer.step()
        schedule.step()
        model.base_model.update_and_allocate(step)
        optimizer.zero_grad()
        torch_xla.sync()
        if step % 6 == 0:
            ranks = model.peft_config["default"].rank_pattern or {}
            kept = sum(sum(p) for p in ranks.values())
            print(f"step {step}: loss {out.loss.item():.3f}, {kept} ranks kept")


if __name__ == "__main__":
    cfg = FinetuneConfig()
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()
    model = build_model(cfg).to(device)
    train = DataLoader(tickets(cfg, cfg.steps * cfg.batch, 1), batch_size=cfg.batch, drop_last=True)
    finetune(model, train, cfg, device)
