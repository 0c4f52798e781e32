"""`gpuwatch explain`: explanations as text and JSON, and docs/playbook.md."""
