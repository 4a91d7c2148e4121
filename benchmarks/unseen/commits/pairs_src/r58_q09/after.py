import torch
import torch.nn.functional as F
import torch_xla
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

VOCAB, SEQ = 256, 24


def base_model():
    cfg = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        attn_implementation="eager",
        use_cache=False,
    )
    return LlamaForCausalLM(cfg)


def lora_config():
    return LoraConfig(
        task_type="CAUSAL_LM",
        r=4,
        lora_alpha=8,
        lora_dropout=0.0,
        bias="none",
        target_modules=["q_proj", "v_proj"],
        use_dora=True,
    )


def sft_loss(logits, labels):
    logits = logits[:, :-1].float().reshape(-1, logits.size(-1))
    return F.cross_entropy(logits, labels[:, 1:].reshape(-1), ignore_index=-100)


class SFT:
    def __init__(self, model, device, lr=2e-4):
        self.model, self.device = model.to(device), device
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.opt = torch.optim.AdamW(self.params, lr=lr, weight_decay=0.01)
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, lambda n: 1.0 / (1.0 + 0.1 * n))

    def step(self, ids, labels, position_ids):
        ids, labels = ids.to(self.device), labels.to(self.device)
        position_ids = position_ids.to(self.device)
        mask = torch.ones((1, 1, SEQ, SEQ), device=self.device).triu(1) * torch.finfo(torch.float32).min
        out = self.model(input_ids=ids, attention_mask=mask, position_ids=position_ids)
        loss = sft_loss(out.logits, labels)
        loss.backward()
        self.opt.step()
        self.sched.step()
        self.opt.zero_grad(set_to_none=True)
        torch_xla.sync()
        return loss.detach()


def examples(n, batch=4):
    g = torch.Generator().manual_seed(11)
    pos = torch.arange(SEQ).expand(batch, SEQ).contiguous()
    for _ in range(n):
        ids = torch.randint(3, VOCAB, (batch, SEQ), generator=g)
        prompt = torch.randint(4, 12, (batch, 1), generator=g)
        labels = ids.masked_fill(torch.arange(SEQ) < prompt, -100)
        yield ids, labels, pos


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = get_peft_model(base_model(), lora_config())
    model.train()
    trainer = SFT(model, device)
    for ids, labels, pos in examples(4):
        loss = trainer.step(ids, labels, pos)
    print("loss", loss.item())


if __name__ == "__main__":
    main()
