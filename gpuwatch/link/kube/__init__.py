"""Pods as nodes: entered by `kubectl exec`, or followed by `kubectl logs` where exec is refused."""
