"""What each axis of a plan is, in a sentence: for the study file's reference and the form."""

from collections.abc import Mapping
from typing import Final

MEANINGS: Final[Mapping[str, str]] = {
    "stage": "What the weights learn from; rejection_sampling: the best of N answers.",
    "trainer": "How training state is distributed; megatron needs a launcher of your own.",
    "parameterization": "Which weights may change.",
    "rollout": "Where completions are generated, seen from the trainer.",
    "reward": "What makes a completion better; a judge is a learned reward (see scorer).",
    "optimizer": "How rewards update the policy; RLVR is a reward, DAPO a loss_type.",
    "group_size": "Completions of one prompt; 0 where nothing is sampled.",
    "sync": "How new weights reach the actors.",
    "train_precision": "Of the trained weights and of the compute.",
    "rollout_precision": "Of the actors' weights and activations.",
    "correction": "Against the difference between the actors' and the trainer's probabilities; "
    "tis truncates token weights, mis leaves out what is beyond the bound.",
    "deployment_quant": "How the promoted model is converted to be served: the method, not only "
    "the bits.",
    "outer_controller": "Who proposes and judges experiments.",
    "loss_type": "The loss within the stage, by TRL's name; auto: the program's own default.",
    "value_model": "PPO's critic.",
    "reference": "The policy that the trained one is held against.",
    "scorer": "What a learned reward is.",
    "reward_version": "Of the reward model, judge, verifier or environment; left out: its "
    "digest, taken at submit.",
    "environment_version": "Of the tools and environment of multi-turn rollouts; left out: as "
    "reward_version.",
    "data_parallel": "Replicas or shards; left out: as many as there are GPUs for.",
    "tensor_parallel": "GPUs that share each layer's matrices.",
    "pipeline_parallel": "Stages that the layers are split into.",
    "context_parallel": "GPUs that share each sequence.",
    "expert_parallel": "GPUs that a mixture's experts are split over.",
    "trainer_gpus": "Left out: what resources.gpus gives.",
    "rollout_gpus": "Of the actors; colocated, the same GPUs as the trainer's.",
    "placement": "How trainer and actors take turns.",
    "prefill_decode": "Inside an actor; it says nothing about where the trainer is.",
    "staleness_bound": "How many policy versions old a trajectory may be; 0: synchronous.",
    "rollout_strategy": "What experience is made of.",
    "behaviour_logprobs": "Whether the actors' own log-probabilities travel with each token.",
    "rollout_record": "What of a completion reaches the learner.",
    "base_precision": "Of the frozen base under an adapter.",
    "gradient_precision": "Of the gradients; auto: as the weights.",
    "optimizer_precision": "Of the optimizer's state; auto: fp32.",
    "kv_precision": "Of the actors' KV cache; auto: as the actors.",
    "sync_payload": "What is sent to the actors; packed: low-bit tensors as they are stored.",
    "serving_kv_precision": "Of the served model's KV cache.",
    "qat": "Quantization-aware training: the format that the forward pass simulates.",
    "hardware": "What the trainer runs on; auto: not said.",
    "rollout_hardware": "What the actors run on; auto: as the trainer.",
    "evaluator_frozen": "Whether nothing that proposes can change what judges.",
}
"""`auto` is what the other axes imply, unless it says otherwise."""
