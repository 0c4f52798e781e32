"""The session over the logs of an ended job: files on disk, judged like `gpuwatch scan`."""
