"""The suite itself: how it is started, what it needs, and what it leaves out."""
