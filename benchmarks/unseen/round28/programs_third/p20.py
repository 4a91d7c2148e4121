# One frozen encoder, two LoRA adapters (intent / tone) trained in turns.
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from peft import LoraConfig, get_peft_model
from transformers import BertConfig, BertModel, get_linear_schedule_with_warmup

VOCAB, SEQ, BATCH = 120, 16, 8
TASKS = {"intent": 5, "tone": 2}
ROUNDS, STEPS_PER_TURN, EVAL_EVERY = 12, 6, 3


class TaskData:
    def __init__(self, name, classes, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.name, self.classes = name, classes
        self.markers = torch.randint(5, VOCAB, (classes, 6), generator=self.g)

    def batch(self):
        y = torch.randint(0, self.classes, (BATCH,), generator=self.g)
        ids = torch.randint(5, VOCAB, (BATCH, SEQ), generator=self.g)
        slot = torch.randint(0, SEQ - 6, (1,), generator=self.g).item()
        ids[:, slot:slot + 6] = self.markers[y]
        lens = torch.randint(SEQ // 2, SEQ + 1, (BATCH, 1), generator=self.g)
        mask = (torch.arange(SEQ)[None] < lens).long()
        return ids * mask, mask, y


def build(device):
    cfg = BertConfig(
        vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=48, max_position_embeddings=SEQ, attn_implementation="eager",
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    encoder = BertModel(cfg)
    lora = {
        "intent": LoraConfig(r=4, lora_alpha=8, target_modules=["query", "value"]),
        "tone": LoraConfig(r=2, lora_alpha=8, target_modules=["query", "key", "value"]),
    }
    names = list(lora)
    encoder = get_peft_model(encoder, lora[names[0]], adapter_name=names[0])
    for n in names[1:]:
        encoder.add_adapter(n, lora[n])
    heads = torch.nn.ModuleDict({t: torch.nn.Linear(32, k) for t, k in TASKS.items()})
    return encoder.to(device), heads.to(device)


def adapter_params(encoder, name):
    return [p for n, p in encoder.named_parameters() if f".{name}." in n]


def forward(encoder, head, ids, mask):
    m = mask.unsqueeze(-1).float()
    bias = ((1.0 - mask.float()) * -1e4)[:, None, None, :].expand(-1, 1, SEQ, -1)
    h = encoder(input_ids=ids, attention_mask=bias).last_hidden_state
    return head((h * m).sum(1) / m.sum(1))


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    encoder, heads = build(device)
    data = {t: TaskData(t, k, i) for i, (t, k) in enumerate(TASKS.items())}
    held_out = {t: [d.batch() for _ in range(3)] for t, d in data.items()}

    optims, scheds = {}, {}
    for t in TASKS:
        encoder.set_adapter(t)
        params = adapter_params(encoder, t) + list(heads[t].parameters())
        optims[t] = torch.optim.AdamW(params, lr=5e-3)
        scheds[t] = get_linear_schedule_with_warmup(optims[t], 0, 2 * ROUNDS * STEPS_PER_TURN)
    xm.mark_step()

    for rnd in range(1, ROUNDS + 1):
        losses = {}
        for t in TASKS:
            encoder.set_adapter(t)
            encoder.train()
            for _ in range(STEPS_PER_TURN):
                ids, mask, y = (b.to(device) for b in data[t].batch())
                loss = torch.nn.functional.cross_entropy(
                    forward(encoder, heads[t], ids, mask), y)
                optims[t].zero_grad()
                loss.backward()
                optims[t].step()
                scheds[t].step()
                xm.mark_step()
            losses[t] = loss
        if rnd % EVAL_EVERY == 0:
            report = []
            encoder.eval()
            for t in TASKS:
                encoder.set_adapter(t)
                hits = 0
                for ids, mask, y in held_out[t]:
                    with torch.no_grad():
                        out = forward(encoder, heads[t], ids.to(device), mask.to(device))
                    xm.mark_step()
                    hits += (out.cpu().argmax(1) == y).sum().item()
                report.append(f"{t}: loss {losses[t].item():.3f} acc {hits / (3 * BATCH):.2f}")
            print(f"round {rnd:2d}  " + "  ".join(report), flush=True)


if __name__ == "__main__":
    main()
