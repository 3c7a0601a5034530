"""Stand-ins for the hub models that vLLM's tests name: folders with a configuration and a tiny tokenizer.

The tests read configurations (layers, heads, lengths, image tokens); the end-to-end ones also load weights. A folder
called like the model, below the working directory, is what vLLM finds first, so nothing is downloaded. Sizes are tiny
wherever no test depends on them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

VOCABULARY = 1024
_OPT = {
    "architectures": ["OPTForCausalLM"],
    "model_type": "opt",
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "ffn_dim": 64,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "word_embed_proj_dim": 64,
    "max_position_embeddings": 2048,
    "torch_dtype": "float16",
    "eos_token_id": 2,
    "bos_token_id": 2,
    "pad_token_id": 1,
}
_LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_hidden_layers": 1,
    "max_position_embeddings": 8192,
    "torch_dtype": "float16",
    "eos_token_id": 2,
    "bos_token_id": 1,
}
_QWEN3 = {
    **_LLAMA,
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "head_dim": 32,
    "max_position_embeddings": 40960,
}
_QWEN2 = {
    **_LLAMA,
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "max_position_embeddings": 32768,
}
_LLAVA = {
    "architectures": ["LlavaForConditionalGeneration"],
    "model_type": "llava",
    "image_token_index": 1000,
    "projector_hidden_act": "gelu",
    "vision_feature_layer": -2,
    "vision_feature_select_strategy": "default",
    "torch_dtype": "float16",
    "text_config": {**_LLAMA, "max_position_embeddings": 4096},
    "vision_config": {
        "model_type": "clip_vision_model",
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "image_size": 336,
        "patch_size": 14,
        "projection_dim": 64,
    },
}
_QWEN25_VL = {
    **_LLAMA,
    "architectures": ["Qwen2_5_VLForConditionalGeneration"],
    "model_type": "qwen2_5_vl",
    "max_position_embeddings": 128000,
    "rope_scaling": {"type": "mrope", "mrope_section": [4, 6, 6]},
    "image_token_id": 1001,
    "video_token_id": 1002,
    "vision_start_token_id": 1003,
    "vision_end_token_id": 1004,
    "vision_token_id": 1005,
    "vision_config": {
        "model_type": "qwen2_5_vl",
        "depth": 2,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_heads": 2,
        "in_chans": 3,
        "out_hidden_size": 64,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "spatial_patch_size": 14,
        "temporal_patch_size": 2,
        "window_size": 112,
        "fullatt_block_indexes": [1],
        "tokens_per_second": 2,
    },
}
MODELS: dict[str, dict[str, Any]] = {
    "facebook/opt-125m": _OPT,
    "facebook/opt-350m": _OPT,
    "hmellor/tiny-random-LlamaForCausalLM": _LLAMA,
    "llava-hf/llava-1.5-7b-hf": _LLAVA,
    "meta-llama/Llama-3.2-1B-Instruct": _LLAMA,
    "Qwen/Qwen1.5-7B": _QWEN2,
    "Qwen/Qwen2.5-VL-3B-Instruct": _QWEN25_VL,
    "Qwen/Qwen3-0.6B": _QWEN3,
}
HYBRID = "Qwen/Qwen3.5-0.8B"
"""Three Gated-DeltaNet layers and a full one, as our own tests serve them; its own class wants a GPU's packages."""
_HYBRID_WORDS = (
    "solve the following arithmetic step by what is you are a helpful assistant now answer Solve What You Now"
)
WITH_WEIGHTS = ("Qwen/Qwen3-0.6B", "hmellor/tiny-random-LlamaForCausalLM")
_CLIP_IMAGES = {
    "image_processor_type": "CLIPImageProcessor",
    "processor_class": "LlavaProcessor",
    "crop_size": {"height": 336, "width": 336},
    "size": {"shortest_edge": 336},
    "do_center_crop": True,
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.48, 0.46, 0.41],
    "image_std": [0.27, 0.26, 0.28],
}
_QWEN_IMAGES = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "processor_class": "Qwen2_5_VLProcessor",
    "min_pixels": 3136,
    "max_pixels": 12845056,
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.48, 0.46, 0.41],
    "image_std": [0.27, 0.26, 0.28],
}
_PROCESSORS = {
    "llava": (
        _CLIP_IMAGES,
        {
            "processor_class": "LlavaProcessor",
            "image_token": "<image>",
            "patch_size": 14,
            "vision_feature_select_strategy": "default",
            "num_additional_image_tokens": 1,
        },
    ),
    "qwen2_5_vl": (_QWEN_IMAGES, {"processor_class": "Qwen2_5_VLProcessor"}),
}
_SPECIAL = {
    0: "<unk>",
    1: "<s>",
    2: "</s>",
    1000: "<image>",
    1001: "<|image_pad|>",
    1002: "<|video_pad|>",
    1003: "<|vision_start|>",
    1004: "<|vision_end|>",
    1005: "<|vision_pad|>",
}


def _tokenizer() -> dict[str, Any]:
    """One token a character; enough for prompts of which only the length matters."""
    characters = [chr(code) for code in range(32, 127)] + [chr(code) for code in range(0xA1, 0xA1 + VOCABULARY)]
    names = dict(_SPECIAL)
    free = iter(characters)
    for index in range(VOCABULARY):
        if index not in names:
            names[index] = next(free)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": index,
                "content": text,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for index, text in _SPECIAL.items()
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": ""}, "behavior": "Isolated", "invert": False},
        "post_processor": None,
        "decoder": {"type": "Fuse"},
        "model": {"type": "WordLevel", "vocab": {text: index for index, text in names.items()}, "unk_token": "<unk>"},
    }


def _word_tokenizer() -> dict[str, Any]:
    """One token a word of the prompts, so that their lengths are those of a real vocabulary."""
    tokenizer = _tokenizer()
    words = [*_HYBRID_WORDS.split(), *"0123456789.*+:?,"]
    names = [*(_SPECIAL[index] for index in range(3)), *words]
    names += [f"word{index}" for index in range(len(names), 1000)] + [_SPECIAL[index] for index in range(1000, 1006)]
    names += [f"word{index}" for index in range(len(names), VOCABULARY)]
    tokenizer["pre_tokenizer"] = {"type": "Whitespace"}
    tokenizer["model"]["vocab"] = {text: index for index, text in enumerate(names)}
    return tokenizer


def _write_hybrid(home: Path) -> None:
    """Write the hybrid model; needs radixflow."""
    from radixflow.models.shape import ModelShape
    from radixflow.models.weights import safetensors_bytes

    shape = ModelShape(vocab_size=VOCABULARY)
    home.mkdir(parents=True, exist_ok=True)
    _write(home / "config.json", shape.hf_config(eos_token_id=2, pad_token_id=2))
    _write(home / "tokenizer.json", _word_tokenizer())
    _write(home / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>"})
    (home / "model.safetensors").write_bytes(safetensors_bytes(shape))


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n")


def write_stand_ins(folder: Path) -> None:
    """Write a folder for each model below ``folder``; needs transformers where a model has weights."""
    tokenizer = _tokenizer()
    for name, config in MODELS.items():
        home = folder / name
        home.mkdir(parents=True, exist_ok=True)
        _write(home / "config.json", config)
        _write(home / "tokenizer.json", tokenizer)
        settings: dict[str, Any] = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "unk_token": "<unk>",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "pad_token": "</s>",
            "image_token": "<image>",
            "video_token": "<|video_pad|>",
            "model_max_length": 131072,
        }
        if config["model_type"] == "qwen2_5_vl":
            settings["image_token"] = "<|image_pad|>"
        _write(home / "tokenizer_config.json", settings)
        if config["model_type"] in _PROCESSORS:
            images, processor = _PROCESSORS[config["model_type"]]
            _write(home / "preprocessor_config.json", images)
            _write(home / "processor_config.json", processor)
    _write_hybrid(folder / HYBRID)
    for name in WITH_WEIGHTS:
        if not (folder / name / "model.safetensors").exists():
            _write_weights(folder / name)


def _write_weights(home: Path) -> None:
    """Fill a model with small random numbers, the same ones every time."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = json.loads((home / "config.json").read_text())
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(home)).to(torch.float16)
    model.save_pretrained(home)
    # transformers writes the configuration again, with its own defaults; the tests get ours.
    _write(home / "config.json", config)
