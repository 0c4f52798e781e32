"""Current problems, unanswered parts and unseen processes, before they are formatted."""
