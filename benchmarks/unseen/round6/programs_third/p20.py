"""LoRA instruction tuning of a small GPT-2 (random weights) with padded buckets."""
import random

import torch
import torch_xla
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel, get_constant_schedule_with_warmup

VOCAB, PAD, SEP = 64, 0, 1
MULTIPLE, LONGEST, BATCH, STEPS = 16, 48, 4, 42


def build_model():
    base = GPT2LMHeadModel(GPT2Config(
        vocab_size=VOCAB, n_positions=LONGEST, n_embd=32, n_layer=2, n_head=2,
        bos_token_id=SEP, eos_token_id=SEP, use_cache=False, attn_implementation="eager"))
    lora = LoraConfig(r=4, lora_alpha=8, lora_dropout=0.05, target_modules=["c_attn"],
                      fan_in_fan_out=True, task_type="CAUSAL_LM")
    return get_peft_model(base, lora)


class Instructions:
    def __init__(self, seed):
        self.rng = random.Random(seed)

    def sample(self):
        prompt = [self.rng.randrange(2, VOCAB) for _ in range(self.rng.randint(3, 22))]
        answer = [2 + (t + 5) % (VOCAB - 2) for t in prompt]
        ids = prompt + [SEP] + answer
        return ids, [-100] * (len(prompt) + 1) + answer

    def batch(self):
        return collate([self.sample() for _ in range(BATCH)])


def round_up(n):
    return min(LONGEST, (n + MULTIPLE - 1) // MULTIPLE * MULTIPLE)


def collate(samples):
    width = round_up(max(len(ids) for ids, _ in samples))
    out = {"input_ids": torch.full((len(samples), width), PAD),
           "labels": torch.full((len(samples), width), -100),
           "attention_mask": torch.zeros(len(samples), width, dtype=torch.long)}
    for i, (ids, labels) in enumerate(samples):
        out["input_ids"][i, :len(ids)] = torch.tensor(ids)
        out["labels"][i, :len(labels)] = torch.tensor(labels)
        out["attention_mask"][i, :len(ids)] = 1
    return out


class Tuner:
    def __init__(self, device, accumulate=2):
        self.device, self.accumulate = device, accumulate
        self.model = build_model().to(device)
        params = [p for p in self.model.parameters() if p.requires_grad]
        self.opt = torch.optim.AdamW(params, lr=5e-3)
        self.sched = get_constant_schedule_with_warmup(self.opt, 6)
        self.micro = 0

    def to(self, batch):
        return {k: v.to(self.device) for k, v in batch.items()}

    def micro_step(self, batch):
        self.model.train()
        loss = self.model(**self.to(batch)).loss
        (loss / self.accumulate).backward()
        torch_xla.sync()
        self.micro += 1
        if self.micro % self.accumulate == 0:
            self.apply()
        return loss.detach()

    def apply(self):
        torch.nn.utils.clip_grad_norm_([p for p in self.model.parameters() if p.requires_grad], 1.0)
        self.opt.step()
        self.sched.step()
        self.opt.zero_grad(set_to_none=False)
        torch_xla.sync()

    @torch.no_grad()
    def evaluate(self, batches):
        self.model.eval()
        losses = []
        for batch in batches:
            loss = self.model(**self.to(batch)).loss
            torch_xla.sync()
            losses.append(loss.item())
        return sum(losses) / len(losses)


def main():
    random.seed(0)
    torch.manual_seed(0)
    tuner = Tuner(torch_xla.device())
    data, held_out = Instructions(1), Instructions(2)
    valid = [held_out.batch() for _ in range(4)]
    torch_xla.sync()
    for step in range(STEPS):
        loss = tuner.micro_step(data.batch())
        if (step + 1) % 14 == 0:
            print(step + 1, f"loss {loss.item():.4f} valid {tuner.evaluate(valid):.4f}")


if __name__ == "__main__":
    main()
