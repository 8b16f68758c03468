"""Runs a training program in vLLM's interpreter on a CPU: `python vllm_trainer.py PROGRAM SITE`.

vLLM for CPUs wants other versions of torch's neighbours than ARL's environment has: what that
interpreter lacks (TRL, peft …) is taken from SITE, the latter's packages, after its own. With
ARL_TEST_STALE set the actor's weights are never brought up to date again.
"""

import os
import runpy
import sys


def main() -> None:
    program, site = sys.argv[1:]
    sys.path.append(site)
    import torch
    import vllm.model_executor.layers.utils

    def keep_live(layer: torch.nn.Module, remove_weight: object) -> None:
        # Its kernels repack the weights once; then no others can be loaded any more.
        layer.cpu_linear = torch.nn.functional.linear

    vllm.model_executor.layers.utils.dispatch_cpu_unquantized_gemm = keep_live
    if os.environ.get("ARL_TEST_STALE"):
        never_sync_again()
    sys.argv = [program]
    runpy.run_module(f"inner_trials.{program}", run_name="__main__")


def never_sync_again() -> None:
    from trl.generation.vllm_generation import VLLMGeneration

    sync, done = VLLMGeneration.sync_weights, []

    def once(self: VLLMGeneration) -> None:
        if not done:
            done.append(sync(self))

    VLLMGeneration.sync_weights = once


if __name__ == "__main__":
    main()
