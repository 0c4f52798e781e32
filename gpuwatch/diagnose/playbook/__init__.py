"""The playbook as data: topics with symptoms and solutions, and what each metric means."""
