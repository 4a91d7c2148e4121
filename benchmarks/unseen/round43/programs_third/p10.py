"""Causal LM finetuning on packed chat turns with the Hugging Face Trainer."""
import random

import torch
import torch_xla
from torch.utils.data import Dataset
from transformers import (
    DataCollatorWithFlattening,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

BOS, EOS, USER, BOT = 1, 2, 3, 4
FIRST_WORD = 8
VOCAB = 128


class ChatTurns(Dataset):
    """Synthetic dialogues: the bot answers with the user's words in reverse order."""

    def __init__(self, size, seed):
        rng = random.Random(seed)
        self.examples = [self._dialogue(rng) for _ in range(size)]

    @staticmethod
    def _dialogue(rng):
        ids, labels = [BOS], [-100]
        for _ in range(rng.randint(1, 2)):
            words = [rng.randrange(FIRST_WORD, VOCAB) for _ in range(rng.randint(3, 9))]
            question = [USER] + words
            answer = [BOT] + words[::-1] + [EOS]
            ids += question + answer
            labels += [-100] * (len(question) + 1) + answer[1:]
        return {"input_ids": ids, "labels": labels}

    def __len__(self):
        return len(self.examples)

    def __getitem__(self, i):
        return self.examples[i]


class LossPrinter(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            print(f"step {state.global_step:3d}  loss {float(logs['loss']):.4f}")


def build_model():
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        bos_token_id=BOS,
        eos_token_id=EOS,
        attn_implementation="sdpa",
        use_cache=False,
    )
    return LlamaForCausalLM(config)


def main():
    set_seed(13)
    model = build_model()
    n_params = sum(p.numel() for p in model.parameters())
    print(f"{n_params / 1e3:.1f}k parameters on {torch_xla.device()}")

    args = TrainingArguments(
        output_dir="/tmp/chat_sft",
        per_device_train_batch_size=4,
        max_steps=20,
        optim="adamw_torch",
        learning_rate=3e-3,
        lr_scheduler_type="cosine",
        warmup_steps=3,
        weight_decay=0.01,
        max_grad_norm=1.0,
        logging_steps=5,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        dataloader_drop_last=True,
        remove_unused_columns=False,
        seed=13,
    )
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=ChatTurns(256, seed=0),
        data_collator=DataCollatorWithFlattening(),
        callbacks=[LossPrinter()],
    )
    result = trainer.train()
    torch_xla.sync()
    print(f"mean loss {result.training_loss:.4f} over {result.global_step} steps")


if __name__ == "__main__":
    main()
