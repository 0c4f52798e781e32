"""Pods entered by kubectl exec, or followed by kubectl logs."""
