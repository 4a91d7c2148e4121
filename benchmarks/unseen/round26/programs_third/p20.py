"""LoRA instruction tuning of a toy decoder with accelerate: accumulation, periodic evaluation, best checkpoint."""
import math

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
from torch.utils.data import DataLoader, Dataset
from transformers import LlamaConfig, LlamaForCausalLM, get_linear_schedule_with_warmup

PAD, SEP, EOS = 0, 1, 2


class ReverseTask(Dataset):
    """'a b c <sep> c b a <eos>', padded to a fixed length."""

    def __init__(self, n, length, vocab, seed):
        g = torch.Generator().manual_seed(seed)
        self.rows = []
        for _ in range(n):
            k = int(torch.randint(3, (length - 2) // 2 + 1, (1,), generator=g))
            a = torch.randint(3, vocab, (k,), generator=g)
            ids = torch.full((length,), PAD)
            ids[:2 * k + 2] = torch.cat([a, torch.tensor([SEP]), a.flip(0), torch.tensor([EOS])])
            labels = ids.clone()
            labels[:k + 1] = -100
            labels[ids == PAD] = -100
            self.rows.append(dict(input_ids=ids, attention_mask=(ids != PAD).long(), labels=labels))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def build_model(vocab):
    config = LlamaConfig(vocab_size=vocab, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                         num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=32,
                         pad_token_id=PAD, bos_token_id=SEP, eos_token_id=EOS, use_cache=False,
                         attn_implementation="eager")
    model = LlamaForCausalLM(config)
    lora = LoraConfig(r=4, lora_alpha=8, lora_dropout=0.05, target_modules=["q_proj", "v_proj"],
                      task_type="CAUSAL_LM")
    return get_peft_model(model, lora)


@torch.no_grad()
def evaluate(accelerator, model, loader):
    model.eval()
    losses = []
    for batch in loader:
        loss = model(**batch).loss
        losses.append(accelerator.gather(loss.detach()).mean().item())
    model.train()
    return sum(losses) / len(losses)


def main():
    set_seed(0)
    vocab, length, batch_size, epochs, eval_every = 24, 16, 8, 4, 4
    accelerator = Accelerator(gradient_accumulation_steps=2)
    train = DataLoader(ReverseTask(128, length, vocab, 0), batch_size=batch_size, shuffle=True, drop_last=True)
    valid = DataLoader(ReverseTask(32, length, vocab, 1), batch_size=batch_size)
    model = build_model(vocab)
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(params, lr=5e-3)
    updates = epochs * len(train) // 2
    scheduler = get_linear_schedule_with_warmup(optimizer, 4, updates)
    model, optimizer, train, valid, scheduler = accelerator.prepare(model, optimizer, train, valid, scheduler)
    best, best_state, done = math.inf, None, 0
    for epoch in range(epochs):
        model.train()
        for batch in train:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(params, 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                done += 1
                if done % eval_every == 0:
                    val = evaluate(accelerator, model, valid)
                    accelerator.print(f"update {done} val loss {val:.4f}")
                    if val < best:
                        best = val
                        state = get_peft_model_state_dict(accelerator.unwrap_model(model))
                        best_state = {k: v.detach().cpu() for k, v in state.items()}
    accelerator.print(f"best val loss {best:.4f}, {len(best_state)} adapter tensors")


if __name__ == "__main__":
    main()
