"""Plans that tests start from: the three of the acceptance example, and valid ones beside them."""

from dataclasses import replace

from inner_trials.plan import Plan

sft = Plan(
    *("sft-qlora", "sft", "single", "qlora", "none", "none", "none", 0),
    *("none", "bf16", "none", "none", "awq_int4", "none"),
)
dpo = Plan(
    *("dpo-offline", "dpo", "fsdp2", "lora", "none", "preferences", "none", 0),
    *("none", "bf16", "none", "none", "awq_int4", "none"),
)
grpo = Plan(
    *("grpo-rlvr", "online_rl", "fsdp2", "lora", "disaggregated", "verifier"),
    *("grpo", 8, "full", "bf16", "fp8", "tis", "awq_int4", "autoresearch-rl"),
)
full = replace(sft, name="sft-full", parameterization="full")
ppo = replace(grpo, name="ppo", optimizer="ppo", group_size=1)
colocated = replace(
    grpo,
    name="colocated",
    rollout="colocated",
    sync="local",
    rollout_precision="bf16",
    correction="none",
)
plain = replace(grpo, name="plain", rollout_precision="bf16", correction="none")
asynchronous = replace(plain, name="async", staleness_bound=2, correction="tis")
reward_model = replace(dpo, name="rm", stage="reward_model")
best_of_n = replace(
    colocated,
    name="best-of-n",
    stage="rejection_sampling",
    optimizer="none",
    sync="none",
)
fp4 = replace(grpo, name="fp4", rollout_precision="nvfp4", rollout_hardware="blackwell")

VALID = (
    *(sft, dpo, grpo, full, ppo, colocated, plain, asynchronous, reward_model, best_of_n, fp4),
    replace(grpo, reward="learned", scorer="judge", reward_version="judge-7b@3f2a"),
    replace(grpo, reward="environment", rollout_strategy="multi_turn", environment_version="2"),
    replace(asynchronous, rollout_strategy="bounded_replay", placement="elastic"),
    replace(plain, sync="delta", sync_payload="verified_format_aware"),
    replace(plain, sync_payload="adapter", prefill_decode="apart", rollout_gpus=4),
    replace(grpo, rollout_precision="int8", sync="delta", sync_payload="verified_format_aware"),
    replace(dpo, trainer="megatron", trainer_gpus=16, tensor_parallel=4, pipeline_parallel=2),
    replace(full, qat="int4", deployment_quant="torchao_int4"),
    replace(dpo, reference="adapter", loss_type="ipo"),
    replace(grpo, loss_type="dapo", reference="moving"),
    replace(ppo, value_model="shared"),
)
