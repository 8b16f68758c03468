"""autoresearch-rl's learned policy (policy.type: learned), asked over stdin and told over stdout.

Reads a JSON line {"seed", "grid": {name: values}} for a new search, then one line
{"value", "keep"} for each result; writes one line {"params"} for each proposal. The rewards are
those that its engine gives: 1 for what was kept, else 0.

Its updates take gradients by moving each weight in turn, two evaluations a weight, which is
minutes for a search. Without `--as-it-is` the same losses are differentiated exactly instead,
layer after layer as it does.
"""

import json
import os
import sys
import tempfile

import numpy as np
from autoresearch_rl.policy import ppo
from autoresearch_rl.policy.learned_search import LearnedParamPolicy, LearnedSearchConfig


def softmax(rows):
    exps = np.exp(rows - rows.max(axis=1, keepdims=True))
    return exps / (exps.sum(axis=1, keepdims=True) + 1e-12)


def layer_gradient(network, states, layer, loss_gradient):
    """Of one layer's weights and biases, given that of the loss by the outputs."""
    inputs, h = [], states.astype(np.float64)
    last = len(network._params) - 1
    for place, (w, b) in enumerate(network._params):
        inputs.append(h)
        h = h @ w + b
        if place < last:
            h = np.maximum(h, 0.0)
    back = loss_gradient(h)
    for place in range(last, layer, -1):
        back = (back @ network._params[place][0].T) * (inputs[place] > 0.0)
    return inputs[layer].T @ back, back.sum(axis=0)


def exact_step(agent, states, actions, old_log_probs, advantages, returns):
    eps, count = agent.config.epsilon, len(states)
    chosen = np.arange(count), actions.astype(int)

    def by_logits(logits):
        probs = softmax(logits)
        picked = probs[chosen]
        ratio = np.exp(np.log(picked + 1e-8) - old_log_probs)
        clipped = np.clip(ratio, 1.0 - eps, 1.0 + eps)
        moves = (ratio * advantages <= clipped * advantages) | (clipped == ratio)
        by_picked = -(moves * ratio * advantages) / count / (picked + 1e-8)
        gradient = -probs * picked[:, None]
        gradient[chosen] += picked
        return by_picked[:, None] * gradient

    def by_values(values):
        return 2.0 * (values - returns[:, None]) / count

    for network, gradient in ((agent.actor, by_logits), (agent.critic, by_values)):
        for layer in range(len(network._params)):
            w, b = network._params[layer]
            w_step, b_step = layer_gradient(network, states, layer, gradient)
            network._params[layer] = (
                w - agent.config.lr * w_step,
                b - agent.config.lr * b_step,
            )


def main():
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if "--as-it-is" not in sys.argv:
        ppo.PPOAgent._sgd_step = exact_step
    policy, history = None, []
    for line in sys.stdin:
        told = json.loads(line)
        if "grid" in told:
            np.random.seed(told["seed"])
            folder = tempfile.mkdtemp(dir=".")  # it takes up an earlier search's weights else
            config = LearnedSearchConfig(snapshot_dir=folder)
            policy, history = LearnedParamPolicy(told["grid"], config), []
        else:
            kept = told["keep"]
            policy.record_reward(1.0 if kept else 0.0)
            history.append(
                {
                    "metrics": {"value": told["value"]},
                    "decision": "keep" if kept else "discard",
                    "status": "ok",
                }
            )
        print(json.dumps(policy.propose({"history": history}).params), file=out, flush=True)


if __name__ == "__main__":
    main()
