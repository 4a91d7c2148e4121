"""One shared decoder, one LoRA adapter per archive: transliterating parish registers, ledgers and ship logs."""
import random
from dataclasses import dataclass

import torch
import torch_xla
import torch_xla.core.xla_model as xm
from peft import LoraConfig, TaskType, get_peft_model
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, set_seed

VOCAB = 64
BOS, SEP, PAD = 1, 2, 0


@dataclass
class Archive:
    name: str
    rank: int
    targets: list
    rotation: int
    block: int
    share: float


ARCHIVES = [
    Archive("parish", 2, ["query_key_value"], 5, 32, 0.4),
    Archive("ledger", 4, ["query_key_value", "dense"], 11, 48, 0.35),
    Archive("shiplog", 8, ["query_key_value", "dense_h_to_4h", "dense_4h_to_h"], 17, 32, 0.25),
]


def page(archive, rng):
    """Source letters, a separator, then the same letters under the archive's substitution alphabet."""
    room = (archive.block - 2) // 2
    n = rng.randint(room // 2, room)
    src = [rng.randrange(8, VOCAB) for _ in range(n)]
    dst = [8 + (c - 8 + archive.rotation) % (VOCAB - 8) for c in src]
    ids = [BOS] + src + [SEP] + dst
    fill = archive.block - len(ids)
    labels = [-100] * (n + 2) + dst + [-100] * fill
    return ids + [PAD] * fill, labels, [1] * len(ids) + [0] * fill


def batch_of(archive, size, rng, device):
    ids, labels, mask = zip(*(page(archive, rng) for _ in range(size)))
    return {
        "input_ids": torch.tensor(ids).to(device),
        "labels": torch.tensor(labels).to(device),
        "attention_mask": torch.tensor(mask).to(device),
    }


def lora(archive):
    return LoraConfig(
        task_type=TaskType.CAUSAL_LM, r=archive.rank, lora_alpha=2 * archive.rank, lora_dropout=0.05,
        target_modules=archive.targets,
    )


def build(device):
    config = GPTNeoXConfig(
        vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=64, pad_token_id=PAD, bos_token_id=BOS, eos_token_id=SEP, use_cache=False,
    )
    base = GPTNeoXForCausalLM(config)
    first, *rest = ARCHIVES
    model = get_peft_model(base, lora(first), adapter_name=first.name)
    for archive in rest:
        model.add_adapter(archive.name, lora(archive))
    return model.to(device)


def adapter_parameters(model, name):
    return [p for n, p in model.named_parameters() if f".{name}." in n]


def main(steps=60, size=4, seed=23):
    set_seed(seed)
    rng = random.Random(seed)
    device = torch_xla.device()
    model = build(device)
    optimizers = {
        a.name: torch.optim.AdamW(adapter_parameters(model, a.name), lr=2e-2, weight_decay=0.0) for a in ARCHIVES
    }
    print({a.name: sum(p.numel() for p in adapter_parameters(model, a.name)) for a in ARCHIVES})

    model.train()
    visits = {a.name: 0 for a in ARCHIVES}
    latest = {}
    for step in range(steps):
        archive = rng.choices(ARCHIVES, weights=[a.share for a in ARCHIVES])[0]
        model.set_adapter(archive.name)
        optimizer = optimizers[archive.name]
        batch = batch_of(archive, size, rng, device)
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        xm.mark_step()
        visits[archive.name] += 1
        latest[archive.name] = loss.detach()
        if (step + 1) % 15 == 0:
            summary = "  ".join(f"{k} {v.item():.3f}/{visits[k]}" for k, v in sorted(latest.items()))
            print(f"step {step + 1:3d}  {summary}")


if __name__ == "__main__":
    main()
