#!/usr/bin/env python3
"""Makes a small Llama-shaped model with random weights: no download, no torch, a few seconds.

    make_model.py --gguf model.gguf       one file for llama.cpp         (needs numpy, tokenizers, gguf)
    make_model.py --hf FOLDER             a Hugging Face folder for vLLM (needs numpy, tokenizers)
    make_model.py --tokenizer FOLDER      the tokenizer alone            (needs tokenizers)

It knows nothing, but an engine works on it exactly as on a real model of its size: it schedules, batches, fills its
KV cache and streams. All forms come from one seed, so each holds the same tokenizer and weights of the same kind.
"""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

SEED = 20
ROPE_BASE = 10_000.0
NORM_EPSILON = 1e-5

START, END = "<|start|>", "<|end|>"
CONTROL_TOKENS = [START, END, "<|system|>", "<|user|>", "<|assistant|>"]
CHAT_TEMPLATE = (
    "{%- for message in messages -%}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|assistant|>' }}{%- endif -%}"
)


@dataclass(frozen=True)
class Shape:
    """The sizes of the network. As they stand: 34 million parameters, 65 MB at two bytes each."""

    hidden: int = 512
    layers: int = 8
    vocabulary: int = 8192
    context: int = 4096

    head_size = 64

    @property
    def heads(self) -> int:
        return self.hidden // self.head_size

    @property
    def kv_heads(self) -> int:
        return max(1, self.heads // 2)

    @property
    def feed_forward(self) -> int:
        return 3 * self.hidden


# The tokenizer: byte-level BPE, trained on made-up text.


def made_up_text(sentences: int = 12_000) -> Iterator[str]:
    """Sentences of invented words. A few words are common and most are rare, as in any language."""
    dice = random.Random(SEED)
    onsets = "b bl c ch d dr f fl g gr h j k l m n p pl qu r s sh st t th tr v w".split()
    vowels = "a ai e ea ee i o oa oo ou u y".split()
    codas = ["", "", *"ck d l ll m n nd ng nt r rd rn rt s st t x".split()]

    def word() -> str:
        syllables = dice.choices((1, 2, 3), weights=(3, 4, 2))[0]
        return "".join(dice.choice(onsets) + dice.choice(vowels) + dice.choice(codas) for _ in range(syllables))

    words = [word() for _ in range(30_000)]
    frequencies = list(accumulate(1 / (rank + 20) for rank in range(len(words))))
    for _ in range(sentences):
        chosen = dice.choices(words, cum_weights=frequencies, k=dice.randint(5, 16))
        ending = dice.choice((".", ".", ".", "?", f", {dice.randint(1, 2030)}."))
        yield " ".join(chosen).capitalize() + ending


def train_tokenizer(shape: Shape) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=shape.vocabulary,
        special_tokens=CONTROL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(made_up_text(), trainer)
    if tokenizer.get_vocab_size() != shape.vocabulary:
        raise SystemExit(f"the text gives {tokenizer.get_vocab_size()} tokens, fewer than `--vocabulary` asks for")
    return tokenizer


def first_word_piece() -> int:
    """Token ids from here on are learned pieces of words; below are the control tokens and the 256 single bytes."""
    return len(CONTROL_TOKENS) + len(pre_tokenizers.ByteLevel.alphabet())


# The weights. Names are Hugging Face's; `GGUF_NAMES` translates them.

GGUF_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def random_weights(shape: Shape) -> Iterator[tuple[str, np.ndarray]]:
    """Every tensor by name: noise that keeps the size of what passes through it, and ones for the norms."""
    import numpy as np

    noise = np.random.default_rng(SEED)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return noise.standard_normal((rows, columns), dtype=np.float32) / np.float32(columns**0.5)

    ones = np.ones(shape.hidden, dtype=np.float32)
    kv_size = shape.kv_heads * shape.head_size

    yield "model.embed_tokens.weight", matrix(shape.vocabulary, shape.hidden)
    for layer in range(shape.layers):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", ones
        yield prefix + "self_attn.q_proj.weight", matrix(shape.hidden, shape.hidden)
        yield prefix + "self_attn.k_proj.weight", matrix(kv_size, shape.hidden)
        yield prefix + "self_attn.v_proj.weight", matrix(kv_size, shape.hidden)
        yield prefix + "self_attn.o_proj.weight", matrix(shape.hidden, shape.hidden)
        yield prefix + "post_attention_layernorm.weight", ones
        yield prefix + "mlp.gate_proj.weight", matrix(shape.feed_forward, shape.hidden)
        yield prefix + "mlp.up_proj.weight", matrix(shape.feed_forward, shape.hidden)
        yield prefix + "mlp.down_proj.weight", matrix(shape.hidden, shape.feed_forward)
    yield "model.norm.weight", ones
    yield "lm_head.weight", readable_head(matrix(shape.vocabulary, shape.hidden))


def readable_head(head: np.ndarray) -> np.ndarray:
    """An output head that only ever picks pieces of words.

    A control token would end or garble a response, and a lone byte is often not valid UTF-8: engines hold such text
    back, and llama.cpp fails the response. Zero rows give those tokens a logit of 0; the others spread so widely
    around 0 (standard deviation 6) that the best of them always win.
    """
    head = head * 6
    head[: first_word_piece()] = 0
    return head


# The two file formats.


def write_gguf(path: Path, shape: Shape, tokenizer: Tokenizer) -> None:
    import gguf
    import numpy as np

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.hidden)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_block_count(shape.layers)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_rope_dimension_count(shape.head_size)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_layer_norm_rms_eps(NORM_EPSILON)
    writer.add_vocab_size(shape.vocabulary)

    kinds = [gguf.TokenType.NORMAL] * shape.vocabulary
    kinds[: len(CONTROL_TOKENS)] = [gguf.TokenType.CONTROL] * len(CONTROL_TOKENS)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([tokenizer.id_to_token(token) for token in range(shape.vocabulary)])
    writer.add_token_types(kinds)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_bos_token_id(tokenizer.token_to_id(START))
    writer.add_eos_token_id(tokenizer.token_to_id(END))
    writer.add_pad_token_id(tokenizer.token_to_id(END))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)

    # A converter would also reorder the rows of q and k, since llama.cpp pairs them otherwise: random rows need none.
    for name, values in random_weights(shape):
        writer.add_tensor(gguf_name(name), values if values.ndim == 1 else values.astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_name(name: str) -> str:
    top = {"model.embed_tokens.weight": "token_embd", "model.norm.weight": "output_norm", "lm_head.weight": "output"}
    if name in top:
        return top[name] + ".weight"
    layer, part = name.removeprefix("model.layers.").removesuffix(".weight").split(".", 1)
    return f"blk.{layer}.{GGUF_NAMES[part]}.weight"


def write_hf(folder: Path, shape: Shape, tokenizer: Tokenizer) -> None:
    write_tokenizer(folder, shape, tokenizer)
    write_json(
        folder / "config.json",
        {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "dtype": "bfloat16",
            "hidden_act": "silu",
            "hidden_size": shape.hidden,
            "intermediate_size": shape.feed_forward,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads,
            "head_dim": shape.head_size,
            "max_position_embeddings": shape.context,
            "vocab_size": shape.vocabulary,
            "rms_norm_eps": NORM_EPSILON,
            "rope_theta": ROPE_BASE,
            "tie_word_embeddings": False,
            "bos_token_id": tokenizer.token_to_id(START),
            "eos_token_id": tokenizer.token_to_id(END),
            "pad_token_id": tokenizer.token_to_id(END),
        },
    )
    write_safetensors(folder / "model.safetensors", random_weights(shape))


def write_safetensors(path: Path, weights: Iterator[tuple[str, np.ndarray]]) -> None:
    """The length of a JSON header, the header, the tensors: https://github.com/huggingface/safetensors#format"""
    header: dict = {"__metadata__": {"format": "pt"}}
    data = bytearray()
    for name, values in weights:
        begin = len(data)
        data += bfloat16_bytes(values)
        header[name] = {"dtype": "BF16", "shape": values.shape, "data_offsets": (begin, len(data))}
    encoded = json.dumps(header).encode()
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + data)


def bfloat16_bytes(values: np.ndarray) -> bytes:
    """A bfloat16 is the upper half of a float32; adding half of the lower half's range rounds to the nearest."""
    import numpy as np

    return ((values.view(np.uint32) + 0x8000) >> 16).astype(np.uint16).tobytes()


def write_tokenizer(folder: Path, shape: Shape, tokenizer: Tokenizer) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": START,
            "eos_token": END,
            "pad_token": END,
            "model_max_length": shape.context,
            "clean_up_tokenization_spaces": False,
            "chat_template": CHAT_TEMPLATE,
        },
    )


def write_json(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    summary, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gguf", type=Path, metavar="FILE", help="write a GGUF file")
    parser.add_argument("--hf", type=Path, metavar="FOLDER", help="write a Hugging Face model folder")
    parser.add_argument("--tokenizer", type=Path, metavar="FOLDER", help="write the tokenizer alone")
    parser.add_argument("--hidden", type=int, default=Shape.hidden, help="a multiple of 64 (default: %(default)s)")
    parser.add_argument("--layers", type=int, default=Shape.layers, help="default: %(default)s")
    parser.add_argument("--vocabulary", type=int, default=Shape.vocabulary, help="default: %(default)s")
    parser.add_argument("--context", type=int, default=Shape.context, help="default: %(default)s")
    options = parser.parse_args()
    if not (options.gguf or options.hf or options.tokenizer):
        parser.error("nothing to write: give `--gguf`, `--hf` or `--tokenizer`")
    if options.hidden < Shape.head_size or options.hidden % Shape.head_size:
        parser.error(f"`--hidden` must be a multiple of {Shape.head_size}")

    shape = Shape(options.hidden, options.layers, options.vocabulary, options.context)
    tokenizer = train_tokenizer(shape)
    if options.gguf:
        write_gguf(options.gguf, shape, tokenizer)
    if options.hf:
        write_hf(options.hf, shape, tokenizer)
    if options.tokenizer:
        write_tokenizer(options.tokenizer, shape, tokenizer)


if __name__ == "__main__":
    main()
