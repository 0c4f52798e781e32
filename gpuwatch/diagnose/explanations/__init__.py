"""What `gpuwatch explain` and the key `i` show: topics, rules, conditions and metrics, by id or words."""
