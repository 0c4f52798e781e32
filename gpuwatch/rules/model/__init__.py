"""The types of a rule, a dialect and their errors."""
