"""What must hold before the training libraries are imported, and one seed for all of them."""

import os
import random
from pathlib import Path


def prepare_environment(scratch: Path) -> None:
    """Make the libraries quiet, offline and single-threaded by default. Call before importing
    torch; what the study's `environment` sets already is kept."""
    for name, value in {
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "TOKENIZERS_PARALLELISM": "false",
        "TRL_EXPERIMENTAL_SILENCE": "1",
        # Trials share a machine: two of one thread each do more than either of two threads.
        "OMP_NUM_THREADS": "1",
        "HF_HOME": str(scratch / "huggingface"),
        # Without it cuBLAS may choose another algorithm, and with it other bits, each run.
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    }.items():
        os.environ.setdefault(name, value)


def seed_everything(seed: int) -> None:
    """Seed Python, numpy and torch, on every device."""
    import numpy
    import torch

    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def describe_runtime() -> str:
    """One line of what else decides the bits of a result: versions and the CPU's vector units."""
    import torch
    import transformers
    import trl

    return (
        f"torch {torch.__version__} transformers {transformers.__version__} trl {trl.__version__}"
        f" cpu {torch.backends.cpu.get_cpu_capability()} threads {torch.get_num_threads()}"
        f" cuda {torch.version.cuda if torch.cuda.is_available() else 'none'}"
    )
