"""Tests of Kubernetes pods as sources."""
