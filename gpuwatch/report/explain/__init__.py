"""`gpuwatch explain`: explanations as text and JSON, and the page docs/playbook.md."""
