"""Writes a language model's GGUF file as a directory that any program loads; needs `gguf`.

python -m examples.smollm2.convert FILE.gguf DIRECTORY
"""

import argparse
import os
from pathlib import Path


def convert(file: Path, directory: Path) -> None:
    """The weights that the file's codes stand for, in float32, with config and tokenizer."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "TQDM_DISABLE": "1"}
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = {"pretrained_model_name_or_path": file.parent, "gguf_file": file.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    # They are plain weights now, and the config must not say otherwise.
    model.hf_quantizer = None
    del model.config.quantization_config
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    for path in directory.glob("*.safetensors"):
        path.chmod(0o644)  # written for the owner alone, but a trial may be another user's


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("directory", type=Path)
    given = parser.parse_args()
    convert(given.file, given.directory)


if __name__ == "__main__":
    main()
