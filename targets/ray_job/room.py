"""What the nodes of a Ray cluster have room for, now or ever. Runs in the driver's process."""

import ray


def lacking(bundle: dict[str, float], shunned: list[str]) -> str:
    """Why no node can ever hold it, and what there is; empty when one can."""
    nodes = [node for node in ray.nodes() if node["Alive"]]
    fitting = [
        node
        for node in nodes
        if all(node["Resources"].get(kind, 0.0) >= amount for kind, amount in bundle.items())
    ]
    if any(node["NodeID"] not in shunned for node in fitting):
        return ""
    wanted = _amounts(bundle)
    if fitting:
        return f"every node with {wanted} lacks the sandbox that the study asks for"
    has = "; ".join(
        f"{node['NodeManagerAddress']}: {_amounts(node['Resources'])}" for node in nodes[:8]
    )
    more = f"; and {len(nodes) - 8} more" if len(nodes) > 8 else ""
    return f"no node of the cluster has {wanted} at once; it has {has or 'no nodes'}{more}"


def _amounts(resources: dict[str, float]) -> str:
    shown = [
        f"memory {amount / 2**30:.3g} GiB" if kind == "memory" else f"{kind} {amount:g}"
        for kind, amount in sorted(resources.items())
        if not kind.startswith(("node:", "object_store_memory", "accelerator_type:"))
    ]
    return ", ".join(shown) or "no resources"


def elsewhere(shunned: list[str]) -> dict[str, str]:
    return {"ray.io/node-id": f"!in({','.join(shunned)})"} if shunned else {}
