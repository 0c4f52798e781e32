"""The session over the logs of an ended job: files on disk, analyzed like `gpuwatch scan`."""
