"""Instruction tuning of a frozen Llama with adapters (peft)."""
import torch
import torch_xla
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM, get_cosine_schedule_with_warmup

VOCAB, SEQ = 96, 16
IGNORE = -100


def base_model():
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        attn_implementation="eager",
        use_cache=False,
    )
    return LlamaForCausalLM(config)


def with_adapters(model):
    config = LoraConfig(
        r=4,
        lora_alpha=8,
        lora_dropout=0.0,
        target_modules=["q_proj", "v_proj"],
        task_type="CAUSAL_LM",
    )
    return get_peft_model(model, config)


def synthetic_pairs(n, seed=0):
    g = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(n):
        prompt_len = int(torch.randint(3, 8, (1,), generator=g))
        ids = torch.randint(3, VOCAB, (SEQ,), generator=g)
        labels = ids.clone()
        labels[:prompt_len] = IGNORE
        rows.append({"input_ids": ids, "attention_mask": torch.ones(SEQ, dtype=torch.long), "labels": labels})
    return rows


def make_optimizer(model, lr):
    trainable = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.AdamW(trainable, lr=lr)


def train(model, loader, device, lr=2e-4, epochs=1):
    optimizer = make_optimizer(model, lr)
    total = epochs * len(loader)
    scheduler = get_cosine_schedule_with_warmup(optimizer, num_warmup_steps=2, num_training_steps=total)
    for epoch in range(epochs):
        for batch in loader:
            batch = {k: v.to(device) for k, v in batch.items()}
            loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            torch_xla.sync()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = with_adapters(base_model()).to(device)
    model.print_trainable_parameters()
    loader = DataLoader(synthetic_pairs(32), batch_size=4, shuffle=True, drop_last=True)
    train(model.train(), loader, device)


if __name__ == "__main__":
    main()
