"""Readers of files and answers from outside, fed with damaged and hostile ones."""
